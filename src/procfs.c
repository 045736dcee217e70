/*-------------------------------------------------------------------------
 *
 * procfs.c
 *	  Figures that the kernel keeps of a process, from /proc.
 *
 * Every process of a server runs as the same user and may read these files.
 * A process may end at any moment: all that is asked of it then is not known.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "procfs.h"
#include "storage/fd.h"

/*
 * read_file
 *		Read the beginning of a file of a process; false if it is not there.
 *
 * Opens no virtual file descriptor and allocates nothing.
 */
static bool
read_file(const char *pid, const char *name, char *buffer, Size size)
{
	char		path[64];
	ssize_t		length;
	int			fd;

	snprintf(path, sizeof(path), "/proc/%s/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = read(fd, buffer, size - 1);
	close(fd);
	if (length <= 0)
		return false;
	buffer[length] = '\0';
	return true;
}

/*
 * own_pages
 *		Pages of this process: all that is mapped, what is resident, and what of
 *		that is shared; false if they are not known.
 */
static bool
own_pages(uint64 pages[3])
{
	char		buffer[128];
	char	   *next = buffer;

	if (!read_file("self", "statm", buffer, sizeof(buffer)))
		return false;
	for (int i = 0; i < 3; i++)
		pages[i] = strtoull(next, &next, 10);
	return true;
}

/*
 * procfs_own_address_space
 *		Bytes of addresses that this process has mapped; 0 if not known.
 */
Size
procfs_own_address_space(void)
{
	uint64		pages[3];

	return own_pages(pages) ? pages[0] * sysconf(_SC_PAGESIZE) : 0;
}

/*
 * procfs_own_private_memory
 *		Bytes of this process that are resident and shared with no file; 0 if
 *		not known.  Costs about two microseconds.
 */
int64
procfs_own_private_memory(void)
{
	uint64		pages[3];

	return own_pages(pages) ? (pages[1] - pages[2]) * sysconf(_SC_PAGESIZE) : 0;
}

/* The value in bytes of a line "name: 123 kB", -1 without one. */
static int64
status_value(const char *status, const char *name)
{
	const char *line = strstr(status, name);

	return line == NULL ? -1 : (int64) strtoll(line + strlen(name), NULL, 10) * 1024;
}

/*
 * procfs_memory
 *		Resident memory of a process; false when there is no such process.
 */
bool
procfs_memory(int pid, ProcMemory *memory)
{
	char		pid_text[16];
	char		status[8192];

	snprintf(pid_text, sizeof(pid_text), "%d", pid);
	if (!read_file(pid_text, "status", status, sizeof(status)))
		return false;
	memory->rss = status_value(status, "\nVmRSS:");
	memory->rss_anon = status_value(status, "\nRssAnon:");
	memory->peak_rss = status_value(status, "\nVmHWM:");
	return true;
}

/*
 * parent_of
 *		The parent of a process, -1 when it is gone.
 */
static int
parent_of(const char *pid)
{
	char		stat[1024];
	char	   *end;

	/* the name, in parentheses, may hold anything; the last one ends it */
	if (!read_file(pid, "stat", stat, sizeof(stat)) ||
		(end = strrchr(stat, ')')) == NULL || strlen(end) < 4)
		return -1;
	return atoi(end + 4);
}

/* Whether a process runs the same program as this one. */
static bool
same_program(const char *pid)
{
	char		path[64];
	char		own[MAXPGPATH];
	char		other[MAXPGPATH];
	ssize_t		own_length = readlink("/proc/self/exe", own, sizeof(own));

	snprintf(path, sizeof(path), "/proc/%s/exe", pid);
	return own_length > 0 && readlink(path, other, sizeof(other)) == own_length &&
		memcmp(own, other, own_length) == 0;
}

/*
 * procfs_children
 *		The processes that a process has started and that run the same program
 *		as this one: a list of integers.
 *
 * A postmaster may have other children: where it is process 1, all orphans.
 * Raises what AllocateDir() raises.
 */
List *
procfs_children(int parent_pid)
{
	List	   *children = NIL;
	DIR		   *dir = AllocateDir("/proc");
	struct dirent *entry;

	while ((entry = ReadDir(dir, "/proc")) != NULL)
	{
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
			parent_of(entry->d_name) == parent_pid && same_program(entry->d_name))
			children = lappend_int(children, atoi(entry->d_name));
	}
	FreeDir(dir);
	return children;
}

/*
 * procfs_title
 *		The first words of a process's title (its "ps" line), "" if not known.
 *
 * title: at least PROC_TITLE_SIZE bytes
 */
void
procfs_title(int pid, char *title)
{
	char		pid_text[16];

	snprintf(pid_text, sizeof(pid_text), "%d", pid);
	if (!read_file(pid_text, "cmdline", title, PROC_TITLE_SIZE))
		title[0] = '\0';
}
