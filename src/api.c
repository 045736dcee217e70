/*-------------------------------------------------------------------------
 *
 * api.c
 *	  The C surface: the struct of function pointers that sift.h finds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api.h"
#include "batch_context.h"
#include "block.h"
#include "context.h"
#include "ledger.h"
#include "row_context.h"
#include "row_store.h"
#include "slots.h"
#include "tuple.h"

static MemoryContext api_row_context_create(MemoryContext parent, const char *name,
											Size first_size, Size max_size);
static MemoryContext api_batch_context_create(MemoryContext parent, const char *name,
											  int flags, Size first_size, Size max_size);
static MemoryContext api_row_store_create(MemoryContext parent, const char *name);
static void api_register_reclaimer(const char *name, int cost,
								   SiftReclaimer callback, void *arg);
static void api_usage(SiftUsageData *usage);
static void api_test_refuse_charge(int64 n);

static SiftApi api = {
	.size = sizeof(SiftApi),
	.layout = SIFT_LAYOUT,
	.row_context_create = api_row_context_create,
	.batch_context_create = api_batch_context_create,
	.row_form_tuple = tuple_form,
	.row_block_empty = context_block_empty,
	.register_reclaimer = api_register_reclaimer,
	.usage = api_usage,
	.test_refuse_charge = api_test_refuse_charge,
	.row_number = &row_next_number,
	.row_store_dead = row_store_dead,
	.row_store_create = api_row_store_create,
	.row_put = row_put,
	.row_get = row_get,
	.row_size = row_size,
	.row_replace = row_replace,
	.row_remove = row_remove,
	.row_pin = row_pin,
	.row_unpin = row_unpin,
	.row_next = row_next,
	.row_put_tuple = tuple_put,
	.row_get_tuple = tuple_get,
	.row_store_compact = row_store_compact,
};

/*
 * sift_api
 *		The struct; called by SiftGetApi() through load_external_function().
 */
const SiftApi *
sift_api(void)
{
	return &api;
}

/*
 * Creating a context takes its home block, so the block table is there
 * afterwards, and a chunk can be freed only after that.
 */
static MemoryContext
api_row_context_create(MemoryContext parent, const char *name,
					   Size first_size, Size max_size)
{
	MemoryContext context = row_context_create(parent, name, first_size, max_size);

	api.blocks = block_table;
	return context;
}

static MemoryContext
api_batch_context_create(MemoryContext parent, const char *name, int flags,
						 Size first_size, Size max_size)
{
	MemoryContext context = batch_context_create(parent, name, flags,
												 first_size, max_size);

	api.blocks = block_table;
	return context;
}

static MemoryContext
api_row_store_create(MemoryContext parent, const char *name)
{
	MemoryContext store = row_store_create(parent, name);

	api.blocks = block_table;
	return store;
}

static void
api_register_reclaimer(const char *name, int cost, SiftReclaimer callback, void *arg)
{
	if (cost < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid cost of reclaimer \"%s\": %d", name, cost),
				 errdetail("The cost is 1 or more; Sift's own idle blocks go first.")));
	ledger_add_reclaimer(name, cost, callback, arg);
}

static void
api_usage(SiftUsageData *usage)
{
	slots_usage(my_slot, usage);
}

static void
api_test_refuse_charge(int64 n)
{
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to have a charge refused"),
				 errdetail("Only superusers may do that, for tests.")));
	ledger_refuse_charge(n);
}
