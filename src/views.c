/*-------------------------------------------------------------------------
 *
 * views.c
 *	  The SQL functions behind the views, and what a user can do about them.
 *
 * Figures of this process come from its own account and contexts; those of
 * other processes from their slots and from /proc, never by asking them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "compat.h"
#include "context.h"
#include "extent.h"
#include "free_heap.h"
#include "machine_memory.h"
#include "mb/pg_wchar.h"
#include "peak.h"
#include "postmaster/bgworker.h"
#include "procfs.h"
#include "row_store.h"
#include "refusal_ring.h"
#include "segments.h"
#include "server_heap.h"
#include "slots.h"
#include "storage/procarray.h"
#include "utils/array.h"
#include "utils/numeric.h"
#include "view_rows.h"

PGDLLEXPORT Datum sift_memory_usage_1_0(PG_FUNCTION_ARGS);
PGDLLEXPORT Datum sift_memory_usage_contexts_1_0(PG_FUNCTION_ARGS);
PGDLLEXPORT Datum sift_memory_usage_backends_1_0(PG_FUNCTION_ARGS);
PGDLLEXPORT Datum sift_memory_usage_total_1_0(PG_FUNCTION_ARGS);
PGDLLEXPORT Datum sift_memory_refusals_1_0(PG_FUNCTION_ARGS);
PGDLLEXPORT Datum sift_machine_memory_1_1(PG_FUNCTION_ARGS);
PGDLLEXPORT Datum sift_compact_1_0(PG_FUNCTION_ARGS);
PGDLLEXPORT Datum sift_trim_1_0(PG_FUNCTION_ARGS);
PGDLLEXPORT Datum sift_reset_peak_1_0(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(sift_memory_usage_1_0);
PG_FUNCTION_INFO_V1(sift_memory_usage_contexts_1_0);
PG_FUNCTION_INFO_V1(sift_memory_usage_backends_1_0);
PG_FUNCTION_INFO_V1(sift_memory_usage_total_1_0);
PG_FUNCTION_INFO_V1(sift_memory_refusals_1_0);
PG_FUNCTION_INFO_V1(sift_machine_memory_1_1);
PG_FUNCTION_INFO_V1(sift_compact_1_0);
PG_FUNCTION_INFO_V1(sift_trim_1_0);
PG_FUNCTION_INFO_V1(sift_reset_peak_1_0);

/* Bytes of an ident that are shown, as in pg_backend_memory_contexts. */
#define IDENT_DISPLAY_SIZE		1024

/* A process id, null when it is 0. */
static void
put_pid(RowBuilder *row, int pid)
{
	if (pid == 0)
		put_null(row);
	else
		put(row, Int32GetDatum(pid));
}

static const char *const kind_names[SIFT_NUM_KINDS] = {
	[SIFT_ROW] = "row",
	[SIFT_BATCH] = "batch",
	[SIFT_LARGE] = "large",
	[SIFT_IDLE] = "idle",
	[SIFT_SERVER] = "server",
	[SIFT_SHARED] = "shared"
};

/* Whether this server accounts for a kind. */
static bool
kind_is_accounted(SiftKind kind)
{
	if (kind == SIFT_SERVER)
		return server_heap_is_accounted();
	if (kind == SIFT_SHARED)
		return segments_are_accounted();
	return true;
}

/*
 * list_usage
 *		This backend, a row a kind.
 */
static void
list_usage(ReturnSetInfo *result)
{
	SiftUsageData account;

	slots_usage(my_slot, &account);
	for (int kind = 0; kind < SIFT_NUM_KINDS; kind++)
	{
		const SiftKindUsage *usage = &account.kinds[kind];
		RowBuilder	row = {0};

		put_text(&row, kind_names[kind]);
		if (!kind_is_accounted(kind))
		{
			while (row.columns < 7)
				put_null(&row);
			store_row(result, &row);
			continue;
		}
		put_number(&row, usage->bytes);
		put_number(&row, usage->peak_bytes);
		if (kind == SIFT_SERVER)
		{
			/* the C library's pieces are no blocks */
			put_null(&row);
			put_null(&row);
			put_null(&row);
		}
		else
		{
			put_number(&row, kind == SIFT_IDLE ? extent_idle_runs() :
					   usage->blocks_taken - usage->blocks_returned);
			put_number(&row, usage->blocks_taken);
			put_number(&row, usage->blocks_returned);
		}
		put_number(&row, usage->refusals);
		store_row(result, &row);
	}
}

Datum
sift_memory_usage_1_0(PG_FUNCTION_ARGS)
{
	view_answer(list_usage, fcinfo);
	return (Datum) 0;
}

/*
 * context_label
 *		The name and ident of a context as PostgreSQL's own views show them:
 *		a dynahash context goes by its table's name.
 */
static const char *
context_label(MemoryContext context, const char **ident)
{
	if (context->ident != NULL && strcmp(context->name, "dynahash") == 0)
	{
		*ident = NULL;
		return context->ident;
	}
	*ident = context->ident;
	return context->name;
}

/* Put an ident, clipped as PostgreSQL's own view does. */
static void
put_ident(RowBuilder *row, const char *ident)
{
	int			length;

	if (ident == NULL)
	{
		put_null(row);
		return;
	}
	length = strlen(ident);
	if (length >= IDENT_DISPLAY_SIZE)
		length = pg_mbcliplen(ident, length, IDENT_DISPLAY_SIZE - 1);
	put(row, PointerGetDatum(cstring_to_text_with_len(ident, length)));
}

/* The level of a context in the tree, as in pg_backend_memory_contexts. */
static int
context_level(MemoryContext context)
{
	int			level = TOP_CONTEXT_LEVEL;

	while ((context = context->parent) != NULL)
		level++;
	return level;
}

/*
 * list_usage_contexts
 *		This backend, a row a Sift context.
 */
static void
list_usage_contexts(ReturnSetInfo *result)
{
	dlist_iter	iter;

	dlist_foreach(iter, &sift_contexts)
	{
		SiftContext *context = dlist_container(SiftContext, node, iter.cur);
		MemoryContext header = &context->cursor.header;
		RowBuilder	row = {0};
		ContextUsage usage;
		int64		chunks = context_count_chunks(context);
		RowStore   *store = context->type == ROW_STORE ? (RowStore *) context : NULL;
		const char *ident;
		const char *parent_ident;

		context_usage(context, &usage);
		put_text(&row, context_label(header, &ident));
		put_ident(&row, ident);
		put_text(&row, header->parent ? context_label(header->parent, &parent_ident) : NULL);
		put_text(&row, is_batch(context->type) ? "batch" : "row");
		put(&row, Int32GetDatum(context_level(header)));
		put_number(&row, usage.blocks);
		put_number(&row, usage.total);
		put_number(&row, usage.used);
		put_number(&row, usage.free);
		put_number(&row, usage.dead);
		put_number(&row, chunks);
		put_number(&row, store != NULL ? (int64) context->rows.rows : -1);
		put_number(&row, store != NULL ? (int64) store->slot_bytes : -1);
		store_row(result, &row);
	}
}

Datum
sift_memory_usage_contexts_1_0(PG_FUNCTION_ARGS)
{
	view_answer(list_usage_contexts, fcinfo);
	return (Datum) 0;
}

/* What is known of a process of the server. */
typedef struct Process
{
	int			pid;
	const char *backend_type;	/* NULL if not known */
	PgBackendStatus *status;	/* its entry of pg_stat_activity, or NULL */
} Process;

/*
 * read_slot
 *		Copy the account of a process, and its leader's pid if it is a parallel
 *		worker; false when it has no slot (yet).
 */
static bool
read_slot(int pid, SiftUsageData *account, int *leader_pid)
{
	const SiftSlot *slot = slots_find(pid);

	if (slot == NULL)
		return false;
	slots_usage(slot, account);
	*leader_pid = slot->leader_pid;
	pg_read_barrier();
	return *(volatile const int *) &slot->pid == pid;
}

/*
 * put_owner
 *		Put the columns that only some may see.
 */
static void
put_owner(RowBuilder *row, const Process *process, bool visible)
{
	PgBackendStatus *status = process->status;

	put_text(row, process->backend_type);
	if (!visible || status == NULL)
	{
		put_null(row);
		put_null(row);
		return;
	}
	put_text(row, OidIsValid(status->st_databaseid) ?
			 get_database_name(status->st_databaseid) : NULL);
	put_text(row, OidIsValid(status->st_userid) ?
			 GetUserNameFromId(status->st_userid, true) : NULL);
}

/*
 * put_explained
 *		Put outside_bytes and accounted_share: what of the private memory of a
 *		process is not explained, and the share that is.
 */
static void
put_explained(RowBuilder *row, const ProcMemory *memory, int64 explained, bool has_share)
{
	put_number(row, memory->rss_anon < 0 ? -1 : Max(memory->rss_anon - explained, 0));
	if (memory->rss_anon <= 0 || !has_share)
		put_null(row);
	else
	{
		int64		share = Min(explained * 10000 / memory->rss_anon, 10000);

		put(row, NumericGetDatum(int64_div_fast_to_numeric(share, 4)));
	}
}

/*
 * store_process
 *		A row of sift_memory_usage_backends.
 *
 * A process that is listed in pg_stat_activity and has no slot yet has
 * charged nothing; one that can have no slot has no account.
 */
static void
store_process(ReturnSetInfo *result, const Process *process)
{
	RowBuilder	row = {0};
	SiftUsageData account = {.limit_bytes = -1, .free_heap_bytes = -1};
	ProcMemory	memory = {-1, -1, -1};
	bool		alive = procfs_memory(process->pid, &memory);
	int			leader_pid = 0;
	bool		has_slot = read_slot(process->pid, &account, &leader_pid);
	bool		accounted = has_slot || process->status != NULL;
	bool		visible = process->status != NULL && view_shows(process->status->st_userid);
	int64		private_bytes = account.charged_bytes - account.kinds[SIFT_SHARED].bytes;

	/* the list that it is from may be older than its end */
	if (!alive && !has_slot)
		return;

	put_pid(&row, process->pid);
	put_pid(&row, visible ? leader_pid : 0);
	put_owner(&row, process, visible);
	put_number(&row, account.limit_bytes);
	put_number(&row, accounted ? account.charged_bytes : -1);
	/* shared memory that is no session's is the server's */
	if (process->pid == PostmasterPid)
		account.kinds[SIFT_SHARED].bytes = pg_atomic_read_u64(&slots_total()->shared_bytes);
	for (int kind = 0; kind < SIFT_NUM_KINDS; kind++)
		put_number(&row, kind_is_accounted(kind) &&
				   (accounted || (kind == SIFT_SHARED && process->pid == PostmasterPid)) ?
				   account.kinds[kind].bytes : -1);
	put_number(&row, accounted ? account.peak_bytes : -1);
	if (accounted && visible)
	{
		int64		refusals = 0;

		for (int kind = 0; kind < SIFT_NUM_KINDS; kind++)
			refusals += account.kinds[kind].refusals;
		put_number(&row, refusals);
	}
	else
		put_null(&row);
	put_number(&row, accounted && server_heap_is_accounted() ? account.waived_bytes : -1);
	put_number(&row, memory.rss);
	put_number(&row, memory.rss_anon);
	put_number(&row, memory.peak_rss);
	put_number(&row, account.free_heap_bytes);
	put_explained(&row, &memory,
				  private_bytes + Max(account.free_heap_bytes, 0),
				  has_slot && server_heap_is_accounted());
	store_row(result, &row);
}

/*
 * titled_type
 *		The type of a process that pg_stat_activity does not list, from its
 *		title; NULL if that does not tell.
 */
static const char *
titled_type(int pid)
{
	char		title[PROC_TITLE_SIZE];
	const char *end = ": logger";
	int			length;

	procfs_title(pid, title);
	length = strlen(title);
	while (length > 0 && title[length - 1] == ' ')
		title[--length] = '\0';
	if (length > strlen(end) && strcmp(title + length - strlen(end), end) == 0)
		return GetBackendTypeDesc(B_LOGGER);
	return NULL;
}

/*
 * list_usage_backends
 *		Every process of the server, the postmaster first.
 */
static void
list_usage_backends(ReturnSetInfo *result)
{
	Process		process = {PostmasterPid, "postmaster", NULL};
	List	   *unlisted = NIL;
	ListCell   *cell;
	int			listed;

	if (IsUnderPostmaster)
	{
		store_process(result, &process);
		unlisted = procfs_children(PostmasterPid);
	}
	listed = pgstat_fetch_stat_numbackends();
	for (int i = 1; i <= listed; i++)
	{
		process.status = backend_status_entry(i);
		process.pid = process.status->st_procpid;
		process.backend_type = NULL;
		if (process.pid == 0)
			continue;
		if (process.status->st_backendType == B_BG_WORKER)
			process.backend_type = GetBackgroundWorkerTypeByPid(process.pid);
		if (process.backend_type == NULL)
			process.backend_type = GetBackendTypeDesc(process.status->st_backendType);
		store_process(result, &process);
		unlisted = list_delete_int(unlisted, process.pid);
	}
	process.status = NULL;
	foreach(cell, unlisted)
	{
		process.pid = lfirst_int(cell);
		process.backend_type = titled_type(process.pid);
		store_process(result, &process);
	}
}

Datum
sift_memory_usage_backends_1_0(PG_FUNCTION_ARGS)
{
	view_needs_preload(slots_exist());
	view_answer(list_usage_backends, fcinfo);
	return (Datum) 0;
}

/*
 * list_usage_total
 *		The server, one row.
 */
static void
list_usage_total(ReturnSetInfo *result)
{
	SiftTotal  *total = slots_total();
	const SiftSlot *slot = NULL;
	RowBuilder	row = {0};
	int64		backends = 0;

	while ((slot = slots_next(slot)) != NULL)
		backends++;
	put_number(&row, grants_total_limit());
	put_number(&row, grants_total_held());
	put_number(&row, pg_atomic_read_u64(&total->peak));
	put_number(&row, backends);
	put_number(&row, pg_atomic_read_u64(&total->refusals));
	store_row(result, &row);
}

Datum
sift_memory_usage_total_1_0(PG_FUNCTION_ARGS)
{
	view_needs_preload(slots_exist());
	view_answer(list_usage_total, fcinfo);
	return (Datum) 0;
}

/* An array of "name bytes". */
static void
put_top_contexts(RowBuilder *row, const RefusalRecord *record)
{
	Datum		texts[MOST_TOP_CONTEXTS];

	for (int i = 0; i < record->top.count; i++)
		texts[i] = CStringGetTextDatum(psprintf("%s %lld", record->top.contexts[i].name,
												(long long) record->top.contexts[i].bytes));
	put(row, PointerGetDatum(construct_array(texts, record->top.count, TEXTOID, -1, false, TYPALIGN_INT)));
}

/*
 * store_refusal
 *		A row of sift_memory_refusals.
 */
static void
store_refusal(ReturnSetInfo *result, const RefusalRecord *record)
{
	RowBuilder	row = {0};
	bool		visible = view_shows(record->userid);

	if (visible)
		put(&row, TimestampTzGetDatum(record->at));
	else
		put_null(&row);
	put_pid(&row, record->pid);
	put_text(&row, visible && OidIsValid(record->userid) ?
			 GetUserNameFromId(record->userid, true) : NULL);
	put_text(&row, visible && OidIsValid(record->dbid) ?
			 get_database_name(record->dbid) : NULL);
	if (visible && record->queryid != 0)
		put(&row, Int64GetDatum(record->queryid));
	else
		put_null(&row);
	put_text(&row, visible && record->context_name[0] != '\0' ? record->context_name : NULL);
	put_text(&row, visible ? kind_names[record->kind] : NULL);
	put_number(&row, record->requested_bytes);
	put_number(&row, record->charged_bytes);
	put_number(&row, record->limit_bytes);
	if (visible)
		put_top_contexts(&row, record);
	else
		put_null(&row);
	store_row(result, &row);
}

/*
 * list_refusals
 *		The last refusals of the whole server, the oldest first.
 */
static void
list_refusals(ReturnSetInfo *result)
{
	RefusalRecord record;
	int64		newest;

	newest = refusal_ring_newest();
	for (int64 number = Max(newest - REFUSAL_RING_SIZE, 0) + 1; number <= newest; number++)
	{
		if (refusal_ring_read(number, &record))
			store_refusal(result, &record);
	}
}

Datum
sift_memory_refusals_1_0(PG_FUNCTION_ARGS)
{
	view_needs_preload(refusal_ring_exists());
	view_answer(list_refusals, fcinfo);
	return (Datum) 0;
}

/*
 * sift_machine_memory
 *		What sift_recommended_limits() begins with.
 */
Datum
sift_machine_memory_1_1(PG_FUNCTION_ARGS)
{
	RowBuilder	row = {0};
	MachineMemory memory;
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	machine_memory("", &memory);
	put_number(&row, memory.bytes);
	put_text(&row, memory.bytes < 0 ? NULL : memory.source);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), row.values, row.nulls)));
}

/*
 * sift_compact
 *		Move the rows of all row stores of this backend together; returns the bytes
 *		by which the stores got smaller.
 */
Datum
sift_compact_1_0(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(row_store_compact_all());
}

/*
 * sift_trim
 *		Give back to the system what this backend keeps for reuse; the bytes
 *		by which the process got smaller.
 */
Datum
sift_trim_1_0(PG_FUNCTION_ARGS)
{
	int64		before = procfs_own_private_memory();

	context_trim_all();
	if (server_heap_is_accounted())
		free_heap_trim();
	PG_RETURN_INT64(Max(before - procfs_own_private_memory(), 0));
}

/*
 * sift_reset_peak
 *		Let this backend's peaks begin again at what it holds now.
 */
Datum
sift_reset_peak_1_0(PG_FUNCTION_ARGS)
{
	peak_reset();
	PG_RETURN_VOID();
}
