/*-------------------------------------------------------------------------
 *
 * machine_memory.c
 *	  How much memory the machine, or the control group, gives this server.
 *
 * A control group is bound by its own limit and by those of the groups above
 * it; a container sees its own group as the topmost.  Control groups are
 * looked for where every distribution mounts them.  Swap is no memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "machine_memory.h"
#include "storage/fd.h"

/* Where the limits of a version of control groups are. */
typedef struct GroupFiles
{
	const char *mount;
	const char *limit;
} GroupFiles;

static const GroupFiles version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"};
static const GroupFiles version_2 = {"/sys/fs/cgroup", "memory.max"};

/*
 * read_meminfo
 *		The memory of the machine; -1 if it is not known.
 */
static int64
read_meminfo(const char *root)
{
	char		path[MAXPGPATH];
	char		line[256];
	int64		kilobytes = -1;
	FILE	   *file;

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	file = AllocateFile(path, "r");
	if (file == NULL)
		return -1;
	while (kilobytes < 0 && fgets(line, sizeof(line), file) != NULL)
	{
		if (strncmp(line, "MemTotal:", 9) == 0)
			kilobytes = strtoll(line + 9, NULL, 10);
	}
	FreeFile(file);
	return kilobytes > 0 ? kilobytes * 1024 : -1;
}

/*
 * apply_limit
 *		Let a group's limit bind, if there is one and it is the least so far.
 *
 * Without a limit the file says "max", or a number beyond any machine.
 */
static void
apply_limit(MachineMemory *memory, const char *path, Size root_length)
{
	char		line[64];
	FILE	   *file = AllocateFile(path, "r");

	if (file == NULL)
		return;
	if (fgets(line, sizeof(line), file) != NULL)
	{
		uint64		limit = strtoull(line, NULL, 10);

		if (limit > 0 && limit < PG_INT64_MAX &&
			(memory->bytes < 0 || (int64) limit < memory->bytes))
		{
			memory->bytes = limit;
			strlcpy(memory->source, path + root_length, sizeof(memory->source));
		}
	}
	FreeFile(file);
}

/*
 * apply_group
 *		Let the limits of a group and of all above it bind.
 *
 * group: "/name/name", or "/" for the topmost; it is cut
 */
static void
apply_group(MachineMemory *memory, const char *root, const GroupFiles *files, char *group)
{
	char	   *end = strcmp(group, "/") == 0 ? group : group + strlen(group);

	do
	{
		char		path[MAXPGPATH];

		*end = '\0';
		snprintf(path, sizeof(path), "%s%s%s/%s", root, files->mount, group, files->limit);
		apply_limit(memory, path, strlen(root));
	} while ((end = strrchr(group, '/')) != NULL);
}

/* Whether a list such as "cpu,memory" has memory in it. */
static bool
lists_memory(char *controllers)
{
	char	   *rest = controllers;
	char	   *name;

	while ((name = strsep(&rest, ",")) != NULL)
	{
		if (strcmp(name, "memory") == 0)
			return true;
	}
	return false;
}

/*
 * machine_memory
 *		The memory that this process may have, and the file that says so.
 *
 * root: what all paths begin with, "" but for tests
 */
void
machine_memory(const char *root, MachineMemory *memory)
{
	char		path[MAXPGPATH];
	char		line[MAXPGPATH];
	FILE	   *file;

	memory->bytes = read_meminfo(root);
	strlcpy(memory->source, "/proc/meminfo", sizeof(memory->source));

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	file = AllocateFile(path, "r");
	if (file == NULL)
		return;
	/* lines of "number:controllers:group"; version 2 names no controllers */
	while (fgets(line, sizeof(line), file) != NULL)
	{
		char	   *group = line;
		char	   *number = strsep(&group, ":");
		char	   *controllers = strsep(&group, ":");

		if (number == NULL || controllers == NULL || group == NULL)
			continue;
		group[strcspn(group, "\n")] = '\0';
		if (controllers[0] == '\0')
			apply_group(memory, root, &version_2, group);
		else if (lists_memory(controllers))
			apply_group(memory, root, &version_1, group);
	}
	FreeFile(file);
}
