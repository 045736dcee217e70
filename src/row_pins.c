/*-------------------------------------------------------------------------
 *
 * row_pins.c
 *	  Rows that must stay where they are, and until when.
 *
 * A pin ends with the (sub)transaction that took it.  One entry counts the pins of
 * a row in a subtransaction; entries are found by both, and are in a list, those of
 * the innermost subtransaction first.  The row's header counts its entries.
 *
 * Entries lie in TopTransactionContext.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "row_store.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

typedef struct PinKey
{
	char	   *row;			/* which stays there */
	uint64		owner;			/* SubTransactionId; no padding is left */
} PinKey;

typedef struct Pin
{
	PinKey		key;
	dlist_node	node;
	RowStore   *store;
	uint32		count;
} Pin;

static HTAB *pins = NULL;		/* NULL: nothing is pinned in this transaction */
static dlist_head pin_list = DLIST_STATIC_INIT(pin_list);

/* The first pin of the transaction.  Raises 53200. */
static void
make_table(void)
{
	HASHCTL		control = {
		.keysize = sizeof(PinKey),
		.entrysize = sizeof(Pin),
		.hcxt = TopTransactionContext
	};

	pins = hash_create("Sift row pins", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static PinKey
make_key(char *row, SubTransactionId owner)
{
	PinKey		key = {.row = row, .owner = owner};

	return key;
}

/* An entry has ended. */
static void
forget(Pin *pin)
{
	ROW_HEADER(pin->key.row)->word -= (uint64) 1 << WORD_PINS_SHIFT;
	pin->store->pins--;
	dlist_delete(&pin->node);
	(void) hash_search(pins, &pin->key, HASH_REMOVE, NULL);
}

/*
 * row_pins_add
 *		Pin a row.  Raises 25P01, 53200, 54000.
 */
void
row_pins_add(RowStore *store, char *row)
{
	PinKey		key = make_key(row, GetCurrentSubTransactionId());
	Pin		   *pin;
	bool		found;

	if (!IsTransactionState())
		ereport(ERROR,
				(errcode(ERRCODE_NO_ACTIVE_SQL_TRANSACTION),
				 errmsg("a row can be pinned in a transaction only")));
	if (ROW_HEADER(row)->word >> WORD_PINS_SHIFT == MAX_PINS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a row is pinned in too many subtransactions")));
	if (pins == NULL)
		make_table();
	pin = hash_search(pins, &key, HASH_ENTER, &found);
	if (found)
	{
		pin->count++;
		return;
	}
	pin->store = store;
	pin->count = 1;
	dlist_push_head(&pin_list, &pin->node);
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
	pin = hash_search(pins, &key, HASH_FIND, NULL);
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
	pins = NULL;
}
