/*-------------------------------------------------------------------------
 *
 * call_sites.h
 *	  From where the server's memory contexts call malloc and realloc.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_CALL_SITES_H
#define SIFT_CALL_SITES_H

extern const char *call_sites_learn(void);
extern bool call_site_is_context(const void *site);
extern bool call_site_tries_smaller(const void *site, Size size);

#endif							/* SIFT_CALL_SITES_H */
