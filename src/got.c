/*-------------------------------------------------------------------------
 *
 * got.c
 *	  Redirecting functions that the server program imports.
 *
 * A program calls a function of a library through a slot in its global offset
 * table, which the dynamic linker fills in.  The slots of the program itself,
 * and of no library, are found through its relocations and set to other
 * functions.  Most programs have their table made read-only after it has been
 * filled in (RELRO); it is made writable for that moment.
 *
 * All slots of a list are redirected or none is: everything is looked up and
 * checked before the first is written.
 *
 * What this cannot do: other systems than Linux with the GNU C library on
 * x86-64 and arm64, programs that are linked statically, and calls that the
 * program makes through a pointer that it has taken before.
 *
 * This file knows nothing of PostgreSQL, so that it can be built into a small
 * program and be tried out on a processor that one has only in emulation.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "got.h"

#if defined(__linux__) && defined(__GLIBC__) && defined(__x86_64__)
#define GOT_SUPPORTED		1
#define R_JUMP_SLOT			R_X86_64_JUMP_SLOT
#define R_GLOB_DAT			R_X86_64_GLOB_DAT
#elif defined(__linux__) && defined(__GLIBC__) && defined(__aarch64__)
#define GOT_SUPPORTED		1
#define R_JUMP_SLOT			R_AARCH64_JUMP_SLOT
#define R_GLOB_DAT			R_AARCH64_GLOB_DAT
#else
#define GOT_SUPPORTED		0
#endif

#if GOT_SUPPORTED

/* A function may have a slot for calls and another one for its address. */
#define MAX_SLOTS			64

typedef struct Slot
{
	const GotRedirection *list; /* that it is redirected by */
	void	  **at;
	void	   *original;		/* what it held before */
	void	   *replacement;
} Slot;

static Slot slots[MAX_SLOTS];
static int	nslots = 0;

/* The program, as the dynamic linker has it. */
typedef struct Program
{
	bool		found;
	uintptr_t	base;			/* what is added to its addresses */
	uintptr_t	start;			/* where it lies in memory */
	uintptr_t	end;
	uintptr_t	relro_start;	/* pages that are read-only after start */
	uintptr_t	relro_end;
	const ElfW(Dyn) *dynamic;
	const ElfW(Sym) *symbols;
	const char *names;
	const ElfW(Rela) *relocations[2];
	size_t		nrelocations[2];
} Program;

static char reason[128];

/* Why it could not be done, for a message; belongs to this file. */
static const char *
failure(const char *what, const char *detail)
{
	snprintf(reason, sizeof(reason), "%s: %s", what, detail);
	return reason;
}

/*
 * find_program
 *		The first object that the dynamic linker lists is the program.
 */
static int
find_program(struct dl_phdr_info *info, size_t size, void *arg)
{
	Program    *program = arg;
	uintptr_t	page = (uintptr_t) sysconf(_SC_PAGESIZE);

	program->base = info->dlpi_addr;
	program->start = UINTPTR_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		const		ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t	start = info->dlpi_addr + header->p_vaddr;
		uintptr_t	end = start + header->p_memsz;

		switch (header->p_type)
		{
			case PT_LOAD:
				if (start < program->start)
					program->start = start;
				if (end > program->end)
					program->end = end;
				break;
			case PT_DYNAMIC:
				program->dynamic = (const ElfW(Dyn) *) start;
				break;
			case PT_GNU_RELRO:
				/* rounded as the dynamic linker does */
				program->relro_start = start & ~(page - 1);
				program->relro_end = end & ~(page - 1);
				break;
		}
	}
	program->found = true;
	return 1;
}

/* An address in the dynamic section, which the dynamic linker has relocated. */
static const void *
dynamic_address(const Program *program, const ElfW(Dyn) *entry)
{
	uintptr_t	address = entry->d_un.d_ptr;

	return (const void *) (address < program->start ? program->base + address : address);
}

/*
 * read_dynamic
 *		Find the program's tables; false when there are none.
 */
static bool
read_dynamic(Program *program)
{
	if (program->dynamic == NULL)
		return false;
	for (const ElfW(Dyn) *entry = program->dynamic; entry->d_tag != DT_NULL; entry++)
	{
		switch (entry->d_tag)
		{
			case DT_SYMTAB:
				program->symbols = dynamic_address(program, entry);
				break;
			case DT_STRTAB:
				program->names = dynamic_address(program, entry);
				break;
			case DT_JMPREL:
				program->relocations[0] = dynamic_address(program, entry);
				break;
			case DT_PLTRELSZ:
				program->nrelocations[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
				break;
			case DT_RELA:
				program->relocations[1] = dynamic_address(program, entry);
				break;
			case DT_RELASZ:
				program->nrelocations[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
				break;
		}
	}
	return program->symbols != NULL && program->names != NULL;
}

static bool
in_program(const Program *program, const void *address)
{
	return (uintptr_t) address >= program->start && (uintptr_t) address < program->end;
}

/*
 * resolve
 *		What a slot leads to.
 *
 * A program that binds its functions when they are first called has slots
 * that lead back into itself until then, to code that would overwrite them.
 * Returns NULL when that cannot be resolved here.
 */
static void *
resolve(const Program *program, const char *name, void *value)
{
	if (!in_program(program, value))
		return value;
	value = dlsym(RTLD_DEFAULT, name);
	return in_program(program, value) ? NULL : value;
}

/*
 * add_slot
 *		Note a slot that is to be redirected; NULL, or why it cannot be.
 */
static const char *
add_slot(const Program *program, const GotRedirection *list,
		 const GotRedirection *redirection, void **at)
{
	void	   *original = resolve(program, redirection->name, *at);

	if (original == NULL)
		return failure("cannot tell where it leads", redirection->name);
	if (*redirection->original != NULL && *redirection->original != original)
		return failure("leads to two places", redirection->name);
	if (nslots == MAX_SLOTS)
		return failure("too many slots", redirection->name);
	*redirection->original = original;
	slots[nslots].list = list;
	slots[nslots].at = at;
	slots[nslots].original = *at;
	slots[nslots].replacement = redirection->replacement;
	nslots++;
	return NULL;
}

/*
 * find_slots
 *		Collect the slots of all functions of the list.
 */
static const char *
find_slots(const Program *program, const GotRedirection *list, int count)
{
	const char *why = NULL;

	for (int table = 0; table < 2; table++)
	{
		for (size_t i = 0; i < program->nrelocations[table]; i++)
		{
			const		ElfW(Rela) *relocation = &program->relocations[table][i];
			unsigned	type = ELF64_R_TYPE(relocation->r_info);
			const char *name;

			if (type != R_JUMP_SLOT && type != R_GLOB_DAT)
				continue;
			name = program->names + program->symbols[ELF64_R_SYM(relocation->r_info)].st_name;
			for (int k = 0; k < count && why == NULL; k++)
			{
				if (strcmp(name, list[k].name) == 0)
					why = add_slot(program, list, &list[k],
								   (void **) (program->base + relocation->r_offset));
			}
			if (why != NULL)
				return why;
		}
	}
	return NULL;
}

/* Make the read-only part of the table writable, or read-only again. */
static bool
protect(const Program *program, int access)
{
	return program->relro_end <= program->relro_start ||
		mprotect((void *) program->relro_start,
				 program->relro_end - program->relro_start, access) == 0;
}

/* Set the slots of a list to their replacements, or to what they held before. */
static void
set_slots(const GotRedirection *list, bool redirected)
{
	for (int i = 0; i < nslots; i++)
	{
		if (slots[i].list == list)
			__atomic_store_n(slots[i].at,
							 redirected ? slots[i].replacement : slots[i].original,
							 __ATOMIC_RELEASE);
	}
}

/*
 * write_slots
 *		The same, in a table that is made writable for that.
 *
 * Should the table not become read-only again, it is as before in all else.
 */
static const char *
write_slots(const Program *program, const GotRedirection *list, bool redirected)
{
	if (!protect(program, PROT_READ | PROT_WRITE))
		return failure("cannot make the table of imported functions writable", strerror(errno));
	set_slots(list, redirected);
	if (protect(program, PROT_READ))
		return NULL;
	set_slots(list, false);
	return failure("cannot make the table of imported functions read-only again", strerror(errno));
}

/*
 * got_redirect
 *		Redirect every function of the list that the program imports.
 *
 * Returns NULL, or the reason why nothing was changed; the string stays valid
 * until the next call.  Once for a list, which stays where it is; a function
 * is in one list only.
 */
const char *
got_redirect(const GotRedirection *list, int count)
{
	Program		program = {0};
	int			before = nslots;
	const char *why;

	dl_iterate_phdr(find_program, &program);
	if (!program.found || !read_dynamic(&program))
		return "the server program has no table of imported functions";
	for (int i = 0; i < count; i++)
		*list[i].original = NULL;
	why = find_slots(&program, list, count);
	if (why == NULL)
		why = write_slots(&program, list, true);
	if (why != NULL)
		nslots = before;
	return why;
}

/*
 * got_restore
 *		Let the slots of the list that was redirected last lead to where they
 *		did; NULL, or why that failed.
 */
const char *
got_restore(const GotRedirection *list)
{
	Program		program = {0};
	const char *why;

	dl_iterate_phdr(find_program, &program);
	why = write_slots(&program, list, false);
	while (why == NULL && nslots > 0 && slots[nslots - 1].list == list)
		nslots--;
	return why;
}

#else							/* !GOT_SUPPORTED */

const char *
got_redirect(const GotRedirection *list, int count)
{
	return "this takes Linux with the GNU C library on x86-64 or arm64";
}

const char *
got_restore(const GotRedirection *list)
{
	return NULL;
}

#endif							/* GOT_SUPPORTED */
