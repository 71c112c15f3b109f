// Package page is the web page of --admin-listen and its API: who may read and who may change, the documents that a browser is
// sent as they change, and the few verbs that a person may ask from there. The page itself is in assets.
//
// Whatever it answers or does is a verb of package control, asked of the same backend; it must never decide anything about the
// fleet, keep anything on disk, or log a credential.
package page
