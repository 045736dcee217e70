/*-------------------------------------------------------------------------
 *
 * statement_table.c
 *	  What statements have needed, in shared memory.
 *
 * The table has a fixed size.  It is cut into sets of 32 places, and a
 * statement can only be in the set that its hash names; there are half as many
 * places more than statements that are kept (sift.max_statements), so that
 * sets seldom are full before the table is.  Each set has a spinlock, which is
 * all that ever is held, and held for one look through the set.  So nobody waits for
 * a lock that is held by somebody who waits, and a statement that is not
 * known yet costs about what a known one does, even when another one has to go
 * for it.
 *
 * That is the least used one of the same set: each call counts as one, and all
 * that a set has counted shrinks by a hundredth when one of it goes, as in
 * pg_stat_statements.
 *
 * When the server is shut down the entries are written to a file; they are
 * read when it starts, and the file is removed at once, so that after a crash
 * the table is empty.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "common/hashfn.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "statement_table.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#define STATEMENT_FILE			PGSTAT_STAT_PERMANENT_DIRECTORY "/sift_statements.stat"

/* To be changed whenever StatementEntry changes. */
#define STATEMENT_FILE_HEADER	0x51F70001

/* What an entry counted so far is worth when another one of its set has gone. */
#define USAGE_DECREASE			0.99

typedef struct StatementSet
{
	slock_t		mutex;
	uint32		hashes[STATEMENT_SET_SIZE]; /* 0: the place is free */
	StatementEntry entries[STATEMENT_SET_SIZE];
} StatementSet;

typedef struct StatementTable
{
	pg_atomic_uint32 kept;		/* entries in all sets */
	uint32		num_sets;
	StatementSet sets[FLEXIBLE_ARRAY_MEMBER];
} StatementTable;

int			statement_table_most = 5000;

static StatementTable *table = NULL;

/*
 * statement_table_sets
 *		The number of sets.
 */
int
statement_table_sets(void)
{
	return ((int64) statement_table_most * 3 / 2 + STATEMENT_SET_SIZE - 1) / STATEMENT_SET_SIZE;
}

static Size
table_size(void)
{
	return add_size(offsetof(StatementTable, sets),
					mul_size(statement_table_sets(), sizeof(StatementSet)));
}

/*
 * statement_table_request
 *		Ask for the shared memory (shmem_request_hook).
 */
void
statement_table_request(void)
{
	RequestAddinShmemSpace(table_size());
}

/*
 * statement_table_exists
 *		Whether statements are kept: not without shared memory.
 */
bool
statement_table_exists(void)
{
	return table != NULL;
}

/* ----------------------------------------------------------------
 *		Finding and replacing
 * ----------------------------------------------------------------
 */

/* Never 0. */
static uint64
hash_of(const StatementKey *key)
{
	uint64		owner = ((uint64) key->userid << 32) | key->dbid;

	/* ids of statements are hashes already */
	return hash_combine64((uint64) key->queryid + key->toplevel, owner) | 1;
}

/* The set of a hash: by its upper half, since the lower one tells in the set. */
static StatementSet *
set_of(uint64 hash)
{
	return &table->sets[((hash >> 32) * table->num_sets) >> 32];
}

static bool
is_key(const StatementKey *a, const StatementKey *b)
{
	return a->queryid == b->queryid && a->userid == b->userid &&
		a->dbid == b->dbid && a->toplevel == b->toplevel;
}

/* The place of a statement in its set, -1 if it is not there. */
static int
find(const StatementSet *set, uint32 hash, const StatementKey *key)
{
	for (int i = 0; i < STATEMENT_SET_SIZE; i++)
	{
		if (set->hashes[i] == hash && is_key(&set->entries[i].key, key))
			return i;
	}
	return -1;
}

/* The least used place of a set; -1 where none is used. */
static int
least_used(const StatementSet *set)
{
	int			least = -1;

	for (int i = 0; i < STATEMENT_SET_SIZE; i++)
	{
		if (set->hashes[i] != 0 &&
			(least < 0 || set->entries[i].usage < set->entries[least].usage))
			least = i;
	}
	return least;
}

/* Make the place of the least used statement free; -1 where there is none. */
static int
evict(StatementSet *set)
{
	int			place = least_used(set);

	if (place >= 0)
		set->hashes[place] = 0;
	for (int i = 0; i < STATEMENT_SET_SIZE; i++)
		set->entries[i].usage *= USAGE_DECREASE;
	return place;
}

/* Count an entry more, if the table may have it. */
static bool
may_keep_more(void)
{
	if (pg_atomic_fetch_add_u32(&table->kept, 1) < (uint32) statement_table_most)
		return true;
	pg_atomic_fetch_sub_u32(&table->kept, 1);
	return false;
}

/*
 * make_place
 *		A place for a statement that is new in its set; -1 when another set must
 *		give one up first.
 */
static int
make_place(StatementSet *set)
{
	for (int i = 0; i < STATEMENT_SET_SIZE; i++)
	{
		if (set->hashes[i] == 0)
		{
			if (may_keep_more())
				return i;
			break;
		}
	}
	return evict(set);
}

/*
 * evict_elsewhere
 *		The table is full, and the set has nothing to give up: have the next one
 *		that has something do it.
 */
static void
evict_elsewhere(const StatementSet *set)
{
	int			sets = statement_table_sets();
	int			next = set - table->sets;

	for (int tries = 1; tries < sets; tries++)
	{
		StatementSet *other = &table->sets[(next + tries) % sets];
		int			place;

		SpinLockAcquire(&other->mutex);
		place = evict(other);
		SpinLockRelease(&other->mutex);
		if (place >= 0)
		{
			pg_atomic_fetch_sub_u32(&table->kept, 1);
			return;
		}
	}
}

/*
 * find_or_make
 *		The place of a statement in its set, which is locked, and locked again
 *		if another set must give up a place first.
 */
static int
find_or_make(StatementSet *set, uint32 hash, const StatementKey *key)
{
	int			place;

	while ((place = find(set, hash, key)) < 0)
	{
		place = make_place(set);
		if (place >= 0)
		{
			set->hashes[place] = hash;
			/* the padding, too, which is written to the file */
			memset(&set->entries[place], 0, sizeof(StatementEntry));
			set->entries[place].key.queryid = key->queryid;
			set->entries[place].key.userid = key->userid;
			set->entries[place].key.dbid = key->dbid;
			set->entries[place].key.toplevel = key->toplevel;
			break;
		}
		SpinLockRelease(&set->mutex);
		evict_elsewhere(set);
		SpinLockAcquire(&set->mutex);
	}
	return place;
}

/*
 * lock_entry
 *		The entry of a statement, made if need be, with its set locked.
 *
 * A session repeats its statements, so it tries where it has found them last.
 */
static inline StatementEntry *
lock_entry(const StatementKey *key, StatementSet **locked)
{
	static uint8 last_places[64];
	uint64		hash = hash_of(key);
	uint8	   *place = &last_places[hash / 2 % lengthof(last_places)];
	StatementSet *set = set_of(hash);

	SpinLockAcquire(&set->mutex);
	if (unlikely(set->hashes[*place] != (uint32) hash || !is_key(&set->entries[*place].key, key)))
		*place = find_or_make(set, (uint32) hash, key);
	*locked = set;
	return &set->entries[*place];
}

/*
 * statement_table_add
 *		Add what an execution of a statement has needed.
 *
 * first: it was not added yet
 * use: what it has needed by now
 * before: what of it was added before, which is less or the same
 */
void
statement_table_add(const StatementKey *key, bool first,
					const StatementUse *use, const StatementUse *before)
{
	static const StatementUse nothing = {0};
	StatementSet *set;
	StatementEntry *entry;

	if (table == NULL || key->queryid == 0)
		return;
	entry = lock_entry(key, &set);
	/* what was added before may have been forgotten since */
	if (unlikely(!first && entry->calls == 0))
	{
		first = true;
		before = &nothing;
	}
	if (first)
	{
		entry->calls++;
		entry->usage += 1;
	}
	entry->max_peak = Max(entry->max_peak, use->peak);
	entry->sum_of_peaks += use->peak - before->peak;
	entry->last_peak = use->peak;
	if (unlikely(use->refusals != 0 || use->waived != 0))
	{
		entry->refusals += use->refusals - before->refusals;
		entry->waived += use->waived - before->waived;
	}
	SpinLockRelease(&set->mutex);
}

/*
 * statement_table_reset
 *		Forget all statements.
 */
void
statement_table_reset(void)
{
	for (int i = 0; i < statement_table_sets(); i++)
	{
		StatementSet *set = &table->sets[i];
		uint32		gone = 0;

		CHECK_FOR_INTERRUPTS();
		SpinLockAcquire(&set->mutex);
		for (int place = 0; place < STATEMENT_SET_SIZE; place++)
			gone += set->hashes[place] != 0;
		memset(set->hashes, 0, sizeof(set->hashes));
		SpinLockRelease(&set->mutex);
		pg_atomic_fetch_sub_u32(&table->kept, gone);
	}
}

/* Copy the entries of a set; returns how many it has. */
static int
copy_entries(const StatementSet *set, StatementEntry *entries)
{
	int			count = 0;

	for (int place = 0; place < STATEMENT_SET_SIZE; place++)
	{
		if (set->hashes[place] != 0)
			entries[count++] = set->entries[place];
	}
	return count;
}

/*
 * statement_table_read
 *		Copy the entries of a set; returns how many it has.
 *
 * entries: has room for STATEMENT_SET_SIZE of them
 */
int
statement_table_read(int set_number, StatementEntry *entries)
{
	StatementSet *set = &table->sets[set_number];
	int			count;

	SpinLockAcquire(&set->mutex);
	count = copy_entries(set, entries);
	SpinLockRelease(&set->mutex);
	return count;
}

/* ----------------------------------------------------------------
 *		The file
 *
 * Read and written by the postmaster alone, when there is no other process;
 * without the locks, since one that was ended by force may have left its own.
 * ----------------------------------------------------------------
 */

/* Put an entry from the file where it belongs. */
static void
restore(const StatementEntry *entry)
{
	StatementSet *set;

	*lock_entry(&entry->key, &set) = *entry;
	SpinLockRelease(&set->mutex);
}

/* Whether an entry is one that can have been written. */
static bool
is_sound(const StatementEntry *entry)
{
	return entry->key.queryid != 0 && *(const uint8 *) &entry->key.toplevel <= 1 &&
		entry->calls > 0 && entry->max_peak >= 0 && entry->last_peak >= 0 &&
		entry->sum_of_peaks >= 0 && entry->refusals >= 0 && entry->waived >= 0 &&
		entry->usage >= 0;
}

/*
 * load
 *		Read the file, if there is one.
 */
static void
load(void)
{
	FILE	   *file = AllocateFile(STATEMENT_FILE, PG_BINARY_R);
	StatementEntry entry;
	uint32		header[2];
	bool		sound;

	if (file == NULL)
	{
		if (errno != ENOENT)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not open file \"%s\": %m", STATEMENT_FILE)));
		return;
	}
	sound = fread(header, sizeof(header), 1, file) == 1 &&
		header[0] == STATEMENT_FILE_HEADER && header[1] == PG_VERSION_NUM / 100;
	while (sound)
	{
		size_t		bytes = fread(&entry, 1, sizeof(entry), file);

		if (bytes == 0 && !ferror(file))
			break;
		sound = bytes == sizeof(entry) && is_sound(&entry);
		if (sound)
			restore(&entry);
	}
	FreeFile(file);
	if (!sound)
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("ignoring invalid data in file \"%s\"", STATEMENT_FILE)));
	unlink(STATEMENT_FILE);
}

static bool
write_entries(FILE *file)
{
	uint32		header[2] = {STATEMENT_FILE_HEADER, PG_VERSION_NUM / 100};
	StatementEntry entries[STATEMENT_SET_SIZE];

	if (fwrite(header, sizeof(header), 1, file) != 1)
		return false;
	for (int set = 0; set < statement_table_sets(); set++)
	{
		size_t		count = copy_entries(&table->sets[set], entries);

		if (fwrite(entries, sizeof(StatementEntry), count, file) != count)
			return false;
	}
	return true;
}

/*
 * save
 *		Write the file when the server is shut down, but not after a crash.
 */
static void
save(int code, Datum arg)
{
	const char *temporary = STATEMENT_FILE ".tmp";
	FILE	   *file;
	bool		written;

	if (code != 0 || table == NULL)
		return;
	file = AllocateFile(temporary, PG_BINARY_W);
	written = file != NULL && write_entries(file);
	if (file != NULL && FreeFile(file) != 0)
		written = false;
	if (!written)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", temporary)));
		unlink(temporary);
		return;
	}
	(void) durable_rename(temporary, STATEMENT_FILE, LOG);
}

/*
 * statement_table_startup
 *		Find or make the shared memory, and read what was kept
 *		(shmem_startup_hook).
 */
void
statement_table_startup(void)
{
	bool		found;

	table = NULL;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	table = ShmemInitStruct("sift statements", table_size(), &found);
	if (!found)
	{
		pg_atomic_init_u32(&table->kept, 0);
		table->num_sets = statement_table_sets();
		for (int i = 0; i < statement_table_sets(); i++)
		{
			SpinLockInit(&table->sets[i].mutex);
			memset(table->sets[i].hashes, 0, sizeof(table->sets[i].hashes));
		}
	}
	LWLockRelease(AddinShmemInitLock);
	if (!IsUnderPostmaster)
		on_shmem_exit(save, (Datum) 0);
	if (!found)
		load();
}
