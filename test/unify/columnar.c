/*
 * columnar.c
 *	  Rows in files, one file a column.
 *
 * A move writes a batch.  In a directory that holds nothing else, batch 7 of a
 * table of two columns is
 *
 *		7.1, 7.2	the columns: a ColumnHeader, then for each row an int32
 *					length (-1 for null) and that many bytes
 *		7.batch		a BatchHeader; a batch is there when this file is
 *
 * Each file is written under another name, fsynced and renamed into place,
 * 7.batch last.  When anything fails before that, all files of the batch are
 * removed again.  What a crash leaves behind has no 7.batch, is not read, and
 * is overwritten by the next move.
 *
 * Values are in the machine's own format; this is a workload, not a format for
 * exchange.
 */
#include "postgres.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "access/tupmacs.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "unify.h"
#include "utils/datum.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#define BATCH_MAGIC		0x554E4601
#define COLUMN_MAGIC	0x554E4602

typedef struct BatchHeader
{
	uint32		magic;
	int32		columns;
	int64		rows;
} BatchHeader;

typedef struct ColumnHeader
{
	uint32		magic;
	Oid			type;
	int64		bytes;			/* that follow */
	pg_crc32c	crc;			/* of these bytes */
} ColumnHeader;

/* ----------------------------------------------------------------
 *		Directories and names
 * ----------------------------------------------------------------
 */

/*
 * parse_name
 *		The batch that a file belongs to, 0 if it is none of ours.
 */
static int
parse_name(const char *name, bool *complete)
{
	char	   *end;
	long		batch = strtol(name, &end, 10);

	*complete = strcmp(end, ".batch") == 0;
	if (batch < 1 || batch >= INT_MAX || name[0] < '1' || name[0] > '9' || *end != '.')
		return 0;
	if (strncmp(end, ".batch", 6) == 0)
		end += 6;
	else if (end[1] >= '1' && end[1] <= '9')
		(void) strtol(end + 1, &end, 10);
	else
		return 0;
	return *end == '\0' || strcmp(end, ".tmp") == 0 ? (int) batch : 0;
}

/*
 * list_batches
 *		The complete batches in a directory, in order.
 *
 * Raises what the system says, and 55000 if there are others' files.
 */
static List *
list_batches(const char *directory)
{
	DIR		   *dir = AllocateDir(directory);
	struct dirent *entry;
	List	   *batches = NIL;

	while ((entry = ReadDir(dir, directory)) != NULL)
	{
		bool		complete;
		int			batch;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		batch = parse_name(entry->d_name, &complete);
		if (batch == 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("directory \"%s\" holds other files", directory),
					 errdetail("\"%s\" is not a file of a batch.", entry->d_name),
					 errhint("Name a directory that is empty, does not exist, or was written by unify_move().")));
		if (complete)
			batches = lappend_int(batches, batch);
	}
	FreeDir(dir);
	list_sort(batches, list_int_cmp);
	return batches;
}

/* The file of a column, counted from 1, or of the batch itself (0). */
static char *
file_name(const char *directory, int batch, int column)
{
	return column == 0 ? psprintf("%s/%d.batch", directory, batch) :
		psprintf("%s/%d.%d", directory, batch, column);
}

static char *
temporary_name(const char *directory, int batch, int column)
{
	return psprintf("%s.tmp", file_name(directory, batch, column));
}

/* ----------------------------------------------------------------
 *		Writing
 * ----------------------------------------------------------------
 */

/* A batch on its way: a buffer a column. */
typedef struct Batch
{
	const char *directory;
	bool		made_directory;
	int			number;
	int64		rows;
	TupleDesc	desc;
	Size	   *sizes;			/* bytes of each column */
	char	  **buffers;
} Batch;

/* Go over the rows: measure the columns, or fill their buffers. */
static void
transpose(Table *table, Batch *batch, bool fill)
{
	int			columns = batch->desc->natts;
	Datum	   *values = palloc(Max(columns, 1) * sizeof(Datum));
	bool	   *isnull = palloc(Max(columns, 1) * sizeof(bool));

	memset(batch->sizes, 0, columns * sizeof(Size));
	for (int64 i = 0; i < batch->rows; i++)
	{
		row_deform(table, table->rows[table->first + i], values, isnull);
		for (int c = 0; c < columns; c++)
		{
			Form_pg_attribute attribute = TupleDescAttr(batch->desc, c);
			int32		length = isnull[c] ? -1 :
				(int32) datumGetSize(values[c], attribute->attbyval, attribute->attlen);

			if (fill)
			{
				char	   *at = batch->buffers[c] + batch->sizes[c];

				memcpy(at, &length, sizeof(length));
				if (length >= 0 && attribute->attbyval)
				{
					Datum		fixed;	/* files are not aligned */

					store_att_byval(&fixed, values[c], attribute->attlen);
					memcpy(at + sizeof(length), &fixed, attribute->attlen);
				}
				else if (length > 0)
					memcpy(at + sizeof(length), DatumGetPointer(values[c]), length);
			}
			batch->sizes[c] += sizeof(length) + Max(length, 0);
		}
		if (i % 1000 == 0)
			CHECK_FOR_INTERRUPTS();
	}
	pfree(values);
	pfree(isnull);
}

static void
write_all(int file, const char *path, const void *bytes, Size size)
{
	const char *at = bytes;

	while (size > 0)
	{
		ssize_t		written;

		CHECK_FOR_INTERRUPTS();
		errno = 0;
		written = write(file, at, Min(size, 16 * 1024 * 1024));
		if (written <= 0)
		{
			/* if write didn't set errno, assume the disk is full */
			if (errno == 0)
				errno = ENOSPC;
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not write file \"%s\": %m", path)));
		}
		at += written;
		size -= written;
	}
}

/* Write a file under its temporary name, and fsync it. */
static void
write_file(const char *path, const void *header, Size header_size,
		   const void *bytes, Size size)
{
	int			file = OpenTransientFile(path, O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);

	if (file < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", path)));
	write_all(file, path, header, header_size);
	write_all(file, path, bytes, size);
	if (pg_fsync(file) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not fsync file \"%s\": %m", path)));
	if (CloseTransientFile(file) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", path)));
}

static void
write_column(const Batch *batch, int column)
{
	ColumnHeader header = {
		.magic = COLUMN_MAGIC,
		.type = TupleDescAttr(batch->desc, column)->atttypid,
		.bytes = batch->sizes[column]
	};

	INIT_CRC32C(header.crc);
	COMP_CRC32C(header.crc, batch->buffers[column], batch->sizes[column]);
	FIN_CRC32C(header.crc);
	write_file(temporary_name(batch->directory, batch->number, column + 1),
			   &header, sizeof(header), batch->buffers[column], batch->sizes[column]);
}

static void
write_files(const Batch *batch)
{
	BatchHeader header = {
		.magic = BATCH_MAGIC,
		.columns = batch->desc->natts,
		.rows = batch->rows
	};

	for (int c = 0; c < batch->desc->natts; c++)
		write_column(batch, c);
	write_file(temporary_name(batch->directory, batch->number, 0),
			   &header, sizeof(header), NULL, 0);

	/* the batch's own file is the last to get its name */
	for (int c = batch->desc->natts; c >= 0; c--)
		(void) durable_rename(temporary_name(batch->directory, batch->number, c),
							  file_name(batch->directory, batch->number, c), ERROR);
}

/* Remove whatever there is of a batch. */
static void
remove_files(const Batch *batch)
{
	for (int c = 0; c <= batch->desc->natts; c++)
	{
		(void) unlink(file_name(batch->directory, batch->number, c));
		(void) unlink(temporary_name(batch->directory, batch->number, c));
	}
	if (batch->made_directory)
		(void) rmdir(batch->directory);
}

static void
open_directory(Batch *batch)
{
	List	   *batches;

	if (MakePGDirectory(batch->directory) == 0)
		batch->made_directory = true;
	else if (errno != EEXIST)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create directory \"%s\": %m", batch->directory)));
	batches = list_batches(batch->directory);
	batch->number = batches == NIL ? 1 : llast_int(batches) + 1;
}

/*
 * columnar_write
 *		Write the first rows of a table as a batch.
 *
 * Needs memory for one copy of these rows, in a context that is given back as
 * a whole.  Either the batch is there for good, or an error is raised and the
 * directory is what it was.
 */
void
columnar_write(Table *table, int64 rows, const char *directory)
{
	MemoryContext context = table->allocator == BY_SIFT || table->allocator == BY_STORE ?
		SiftBatchContextCreate(CurrentMemoryContext, "unify batch", 0, SIFT_BATCH_DEFAULT_SIZES) :
		AllocSetContextCreate(CurrentMemoryContext, "unify batch", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	Batch	   *batch = palloc0(sizeof(Batch));
	int			columns = table->desc->natts;

	batch->directory = directory;
	batch->rows = rows;
	batch->desc = table->desc;
	batch->sizes = palloc(Max(columns, 1) * sizeof(Size));
	batch->buffers = palloc(Max(columns, 1) * sizeof(char *));
	transpose(table, batch, false);
	for (int c = 0; c < columns; c++)
		batch->buffers[c] = MemoryContextAllocHuge(context, batch->sizes[c]);
	transpose(table, batch, true);

	open_directory(batch);
	PG_TRY();
	{
		write_files(batch);
	}
	PG_CATCH();
	{
		remove_files(batch);
		PG_RE_THROW();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

/* ----------------------------------------------------------------
 *		Reading
 * ----------------------------------------------------------------
 */

/* A column that is being read. */
typedef struct Reader
{
	char	   *path;
	FILE	   *file;
	ColumnHeader header;
	int64		left;			/* bytes that are still to come */
	pg_crc32c	crc;
} Reader;

static void
damaged(const char *path)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("file \"%s\" is damaged", path)));
}

static FILE *
open_file(const char *path)
{
	FILE	   *file = AllocateFile(path, PG_BINARY_R);

	if (file == NULL)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path)));
	return file;
}

static BatchHeader
read_batch_header(const char *directory, int batch)
{
	char	   *path = file_name(directory, batch, 0);
	FILE	   *file = open_file(path);
	BatchHeader header;

	if (fread(&header, sizeof(header), 1, file) != 1 || header.magic != BATCH_MAGIC)
		damaged(path);
	FreeFile(file);
	return header;
}

static void
open_column(Reader *reader, const char *directory, int batch, int column, Oid type)
{
	reader->path = file_name(directory, batch, column);
	reader->file = open_file(reader->path);
	if (fread(&reader->header, sizeof(ColumnHeader), 1, reader->file) != 1 ||
		reader->header.magic != COLUMN_MAGIC)
		damaged(reader->path);
	if (reader->header.type != type)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column %d in \"%s\" has another type", column, directory)));
	reader->left = reader->header.bytes;
	INIT_CRC32C(reader->crc);
}

static void
read_bytes(Reader *reader, void *bytes, Size size)
{
	if ((int64) size > reader->left || fread(bytes, 1, size, reader->file) != size)
		damaged(reader->path);
	reader->left -= size;
	COMP_CRC32C(reader->crc, bytes, size);
}

/* Whether a value's own idea of its length is the file's. */
static bool
is_whole(const char *bytes, int32 length, int16 attlen)
{
	if (attlen == -1)
		return length >= 1 && !VARATT_IS_1B_E(bytes) &&
			(VARATT_IS_1B(bytes) || (length >= VARHDRSZ && VARATT_IS_4B_U(bytes))) &&
			VARSIZE_ANY(bytes) == length;
	if (attlen == -2)
		return length > 0 && memchr(bytes, '\0', length) == bytes + length - 1;
	return length == attlen;
}

/* The next value of a column, in the current context. */
static Datum
read_value(Reader *reader, Form_pg_attribute attribute, bool *isnull)
{
	int32		length;
	char	   *bytes;

	read_bytes(reader, &length, sizeof(length));
	*isnull = length < 0;
	if (*isnull)
		return (Datum) 0;
	if (length > reader->left)
		damaged(reader->path);
	bytes = palloc(Max(length, sizeof(Datum)));
	read_bytes(reader, bytes, length);
	if (!is_whole(bytes, length, attribute->attlen))
		damaged(reader->path);
	return fetch_att(bytes, attribute->attbyval, attribute->attlen);
}

static void
close_column(Reader *reader)
{
	FIN_CRC32C(reader->crc);
	if (reader->left != 0 || !EQ_CRC32C(reader->crc, reader->header.crc))
		damaged(reader->path);
	FreeFile(reader->file);
}

static void
read_batch(const char *directory, int number, TupleDesc desc,
		   void (*emit) (void *arg, Datum *values, bool *isnull), void *arg)
{
	BatchHeader header = read_batch_header(directory, number);
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "unify row",
												  ALLOCSET_DEFAULT_SIZES);
	Reader	   *readers = palloc0(Max(desc->natts, 1) * sizeof(Reader));
	Datum	   *values = palloc(Max(desc->natts, 1) * sizeof(Datum));
	bool	   *isnull = palloc(Max(desc->natts, 1) * sizeof(bool));

	if (header.columns != desc->natts)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("rows in \"%s\" have %d columns, not %d",
						directory, header.columns, desc->natts)));
	for (int c = 0; c < desc->natts; c++)
		open_column(&readers[c], directory, number, c + 1, TupleDescAttr(desc, c)->atttypid);
	for (int64 i = 0; i < header.rows; i++)
	{
		MemoryContext caller = MemoryContextSwitchTo(scratch);

		for (int c = 0; c < desc->natts; c++)
			values[c] = read_value(&readers[c], TupleDescAttr(desc, c), &isnull[c]);
		MemoryContextSwitchTo(caller);
		emit(arg, values, isnull);
		MemoryContextReset(scratch);
		CHECK_FOR_INTERRUPTS();
	}
	for (int c = 0; c < desc->natts; c++)
		close_column(&readers[c]);
	MemoryContextDelete(scratch);
}

/*
 * columnar_read
 *		Emit the rows of all batches in a directory, in the order in which
 *		they were moved.
 *
 * desc: the type that they must have
 *
 * Raises 42804 for another type, XX001 for a damaged file.
 */
void
columnar_read(const char *directory, TupleDesc desc,
			  void (*emit) (void *arg, Datum *values, bool *isnull), void *arg)
{
	ListCell   *cell;

	foreach(cell, list_batches(directory))
		read_batch(directory, lfirst_int(cell), desc, emit, arg);
}
