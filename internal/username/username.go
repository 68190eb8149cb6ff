// Package username lists the usernames that no one can choose.
package username

import "slices"

// reserved are refused here and from providers: applications can take their bearer for an administrator, for the system
// itself, or for who answers its mail (RFC 2142). Administrators can give them to anyone.
var reserved = []string{
	"abuse", "admin", "administrator", "administrators", "admins", "all", "anonymous", "api", "daemon", "everyone",
	"gatehouse", "guest", "help", "helpdesk", "hostmaster", "info", "list", "localhost", "mailer-daemon", "me", "mod",
	"moderator", "nobody", "noc", "no-reply", "noreply", "null", "operator", "owner", "postmaster", "public", "root",
	"security", "self", "service", "staff", "sudo", "superadmin", "superuser", "support", "sysadmin", "sysop",
	"system", "undefined", "unknown", "user", "webmaster", "www", "www-data",
}

// Reserved reports whether a username (folded) is reserved.
func Reserved(folded string) bool { return slices.Contains(reserved, folded) }
