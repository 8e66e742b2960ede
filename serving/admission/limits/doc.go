// Package limits bounds what clients may hold: connections, in all and from one address; bytes of bodies and
// answers; the places of leases. It counts, and sees no content; time is passed in.
package limits
