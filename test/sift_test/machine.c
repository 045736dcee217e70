/*
 * machine.c
 *	  Sift's reader of the machine's memory, with files of a test's own.
 *
 * It is not one of the calls for extensions, so its source is included.
 */
#include "postgres.h"

#include "../../src/machine_memory.c"

#include "fmgr.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(sift_test_machine_memory);

/*
 * "bytes source" for a folder that has proc and sys in it.
 */
Datum
sift_test_machine_memory(PG_FUNCTION_ARGS)
{
	MachineMemory memory;

	machine_memory(text_to_cstring(PG_GETARG_TEXT_PP(0)), &memory);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf(INT64_FORMAT " %s", memory.bytes, memory.source)));
}
