/*-------------------------------------------------------------------------
 *
 * got.h
 *	  Redirecting functions that the server program imports.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_GOT_H
#define SIFT_GOT_H

/* A function of the program, to be redirected. */
typedef struct GotRedirection
{
	const char *name;			/* as the program imports it */
	void	   *replacement;	/* what is to be called in its place */
	void	  **original;		/* set to what was called so far, which stays
								 * NULL when the program does not import it */
} GotRedirection;

extern const char *got_redirect(const GotRedirection *list, int count);
extern const char *got_restore(const GotRedirection *list);

#endif							/* SIFT_GOT_H */
