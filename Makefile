# Sift: memory contexts with an account, and a limit for a session's memory.
#
#   make && sudo make install      build and install for pg_config's server
#   make installcheck              run the regression tests on a running server
#   make test                      everything, on a server of its own
#   make demo                      what it is for, on a server of its own
#
# "make test" and "make demo" install what is missing from Debian's packages,
# so they need no pg_config to begin with.

EXTENSION = sift
MODULE_big = sift
OBJS = \
	src/api.o \
	src/batch_context.o \
	src/block.o \
	src/caches.o \
	src/call_sites.o \
	src/context.o \
	src/context_usage.o \
	src/explain_option.o \
	src/extent.o \
	src/extent_map.o \
	src/free_heap.o \
	src/got.o \
	src/grants.o \
	src/guard.o \
	src/idle.o \
	src/ledger.o \
	src/machine_memory.o \
	src/method_table.o \
	src/peak.o \
	src/procfs.o \
	src/range.o \
	src/refusal_ring.o \
	src/refuse.o \
	src/report.o \
	src/row_compact.o \
	src/row_context.o \
	src/row_pins.o \
	src/row_slots.o \
	src/row_store.o \
	src/segments.o \
	src/server_heap.o \
	src/sift.o \
	src/slots.o \
	src/statement.o \
	src/statement_table.o \
	src/statement_views.o \
	src/top_contexts.o \
	src/tracking.o \
	src/tuple.o \
	src/view_rows.o \
	src/views.o

DATA = sift--1.0.sql sift--1.0--1.1.sql
HEADERS_sift = src/sift.h
SCRIPTS = sift_report
PGFILEDESC = "sift - accounted memory contexts"
REGRESS = settings extension
PG_CPPFLAGS = -I$(srcdir)/src

# Only what is marked PGDLLEXPORT is seen outside.  Up to 15 the server's
# headers define it as nothing unless it is defined before.
PG_CFLAGS = -fvisibility=hidden
PG_CPPFLAGS += '-DPGDLLEXPORT=__attribute__((visibility("default")))'

PG_CONFIG ?= pg_config

.PHONY: test demo

ifneq ($(filter test demo,$(MAKECMDGOALS)),)

test:
	test/run

demo:
	test/demo

else

PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq ($(wildcard $(PGXS)),)
$(error PostgreSQL's files for building extensions are not there; \
install postgresql-server-dev-15 (17, 18), or set PG_CONFIG to that server's pg_config)
endif
include $(PGXS)

# A VPATH build has no src folder yet; by its full name, or make would be content
# with the one it finds by VPATH.
$(OBJS) $(OBJS:.o=.bc): | $(CURDIR)/src
$(CURDIR)/src:
	mkdir -p $@

# every object is built again when a header changes
$(OBJS) $(OBJS:.o=.bc): $(wildcard $(srcdir)/src/*.h)

endif
