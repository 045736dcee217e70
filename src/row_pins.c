/*-------------------------------------------------------------------------
 *
 * row_pins.c
 *	  Rows that must stay where they are, and until when.
 *
 * A pin ends with the (sub)transaction that took it.  One entry counts the pins of
 * a row in a subtransaction; entries are found by both, and are in a list, those of
 * the innermost subtransaction first.  The row's header counts its entries.
 *
 * Entries lie in TopTransactionContext.  Whoever is asked for memory may ask
 * reclaimers, and these may remove the row or end pins of others.  So memory for an
 * entry is taken before the row is looked for, and the table is one that can be told
 * when to grow, which dynahash cannot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "row_store.h"
#include "utils/memutils.h"

#define LEAST_CHAINS			64

typedef struct PinKey
{
	char	   *row;			/* which stays there */
	uint64		owner;			/* SubTransactionId; no padding is left */
} PinKey;

typedef struct Pin
{
	PinKey		key;
	dlist_node	node;			/* in pin_list */
	dlist_node	chain_node;		/* in its chain */
	RowStore   *store;
	uint32		count;
} Pin;

static dlist_head pin_list = DLIST_STATIC_INIT(pin_list);
static dlist_head *chains = NULL;	/* NULL: none in this transaction yet */
static uint32 num_chains = 0;	/* a power of two */
static uint32 num_pins = 0;
static Pin *spare = NULL;		/* an entry for the next pin, or NULL */

static PinKey
make_key(char *row, SubTransactionId owner)
{
	PinKey		key = {.row = row, .owner = owner};

	return key;
}

static dlist_head *
chain_of(const PinKey *key)
{
	return &chains[hash_bytes((const unsigned char *) key, sizeof(PinKey)) & (num_chains - 1)];
}

/* The entry of a key, NULL if there is none. */
static Pin *
find_pin(const PinKey *key)
{
	dlist_iter	iter;

	dlist_foreach(iter, chain_of(key))
	{
		Pin		   *pin = dlist_container(Pin, chain_node, iter.cur);

		if (pin->key.row == key->row && pin->key.owner == key->owner)
			return pin;
	}
	return NULL;
}

/* Have twice as many chains.  Raises 53200. */
static void
grow_table(void)
{
	uint32		number = Max(num_chains * 2, LEAST_CHAINS);
	dlist_head *larger = MemoryContextAllocHuge(TopTransactionContext, number * sizeof(dlist_head));
	dlist_iter	iter;

	if (chains != NULL)
		pfree(chains);
	chains = larger;
	num_chains = number;
	for (uint32 i = 0; i < number; i++)
		dlist_init(&chains[i]);
	dlist_foreach(iter, &pin_list)
	{
		Pin		   *pin = dlist_container(Pin, node, iter.cur);

		dlist_push_head(chain_of(&pin->key), &pin->chain_node);
	}
}

/* An entry has ended. */
static void
forget(Pin *pin)
{
	ROW_HEADER(pin->key.row)->word -= (uint64) 1 << WORD_PINS_SHIFT;
	pin->store->pins--;
	num_pins--;
	dlist_delete(&pin->node);
	dlist_delete(&pin->chain_node);
	pfree(pin);
}

/*
 * row_pins_make_room
 *		Have memory for the next entry.  Raises 25P01, 53200, and what a reclaimer
 *		raises.
 */
void
row_pins_make_room(void)
{
	if (!IsTransactionState())
		ereport(ERROR,
				(errcode(ERRCODE_NO_ACTIVE_SQL_TRANSACTION),
				 errmsg("a row can be pinned in a transaction only")));
	if (num_pins >= num_chains)
		grow_table();
	/* last, since a reclaimer may pin a row */
	if (spare == NULL)
		spare = MemoryContextAlloc(TopTransactionContext, sizeof(Pin));
}

/*
 * row_pins_add
 *		Pin a row; row_pins_make_room() was called.  Raises 54000.
 */
void
row_pins_add(RowStore *store, char *row)
{
	PinKey		key = make_key(row, GetCurrentSubTransactionId());
	Pin		   *pin = row_is_pinned(row) ? find_pin(&key) : NULL;

	if (pin != NULL)
	{
		pin->count++;
		return;
	}
	if (ROW_HEADER(row)->word >> WORD_PINS_SHIFT == MAX_PINS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a row is pinned in too many subtransactions")));
	pin = spare;
	spare = NULL;
	pin->key = key;
	pin->store = store;
	pin->count = 1;
	dlist_push_head(&pin_list, &pin->node);
	dlist_push_head(chain_of(&key), &pin->chain_node);
	num_pins++;
	store->pins++;
	ROW_HEADER(row)->word += (uint64) 1 << WORD_PINS_SHIFT;
}

/* The entry of a row whose pin was taken last, NULL if there is none. */
static Pin *
last_pin(char *row)
{
	PinKey		key = make_key(row, GetCurrentSubTransactionId());
	Pin		   *pin;
	dlist_iter	iter;

	if (!row_is_pinned(row))
		return NULL;
	pin = find_pin(&key);
	if (pin != NULL)
		return pin;
	dlist_foreach(iter, &pin_list)
	{
		pin = dlist_container(Pin, node, iter.cur);
		if (pin->key.row == row)
			return pin;
	}
	return NULL;
}

/*
 * row_pins_drop
 *		End a pin of a row; 55000 if it has none.
 */
void
row_pins_drop(RowStore *store, char *row)
{
	Pin		   *pin = last_pin(row);

	if (pin == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a row of row store \"%s\" is not pinned",
						store->context.cursor.header.name),
				 errdetail("Pins end with the transaction or subtransaction that took them.")));
	if (--pin->count == 0)
		forget(pin);
}

/* All rows of a store are about to go. */
void
row_pins_forget_store(RowStore *store)
{
	dlist_mutable_iter iter;

	if (store->pins == 0)
		return;
	dlist_foreach_modify(iter, &pin_list)
	{
		Pin		   *pin = dlist_container(Pin, node, iter.cur);

		if (pin->store == store)
			forget(pin);
	}
}

/* A subtransaction has ended, and with it all pins that it has taken. */
void
row_pins_end_subtransaction(SubTransactionId id)
{
	while (!dlist_is_empty(&pin_list))
	{
		Pin		   *pin = dlist_head_element(Pin, node, &pin_list);

		if (pin->key.owner != id)
			break;
		forget(pin);
	}
}

/* A transaction has ended; the table goes with its memory. */
void
row_pins_end_transaction(void)
{
	while (!dlist_is_empty(&pin_list))
		forget(dlist_head_element(Pin, node, &pin_list));
	chains = NULL;
	num_chains = 0;
	spare = NULL;
}
