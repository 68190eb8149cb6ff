package protect

import (
	"cmp"
	"slices"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// verdict is why a token or session is refused at this site.
type verdict int

const (
	allowed       verdict = iota
	noCredentials         // nothing was sent
	inactive              // unknown, expired, revoked
	elsewhere             // meant for another resource
	unnamed               // the site does not say that it accepts tokens like this one
	tooOld                // the sign-in is older than the site accepts
	tooLow                // a higher authentication level is needed
	unbound               // the session is not bound to a device
	unassured             // the identity of the person is not assured well enough
	scopeMissing
	notInGroup
	notInPartition
	needUnmet  // the person or client lacks what the site needs
	ruleDenied // a rule refuses it
	noRule     // there are rules that allow, and none of them this
)

// examine applies what this site asks of every request. It is called for every request; no verdict is cached.
func (p *Protect) examine(who *token.Introspection, browser bool) verdict {
	switch {
	case who == nil || !who.Active:
		return inactive
	case !browser && !p.meant(who):
		return elsewhere
	case !browser && who.AppPassword == "" && !p.takes.Lists(who.ClientID):
		return unnamed
	case browser && p.session > 0 && p.now().Sub(who.AuthTime) >= p.session:
		return tooOld
	case who.Level < p.level, browser && who.Level < p.reach:
		return tooLow
	case browser && who.Assurance(p.now()) < p.assured:
		return unassured
	case !browser && slices.ContainsFunc(p.Scopes, func(s string) bool { return !slices.Contains(who.Scope, s) }):
		return scopeMissing
	case len(p.Groups) > 0 && (who.Person == nil ||
		!slices.ContainsFunc(p.Groups, func(g string) bool { return slices.Contains(who.Person.Groups, g) })):
		return notInGroup
	case who.Person != nil && !p.admits(who.Person.Partition):
		return notInPartition
	}
	return allowed
}

// admits reports whether persons of a partition may pass. "": the default one.
func (p *Protect) admits(partition string) bool {
	if len(p.Partitions) == 0 {
		return partition == ""
	}
	partition = cmp.Or(partition, audit.DefaultPartition)
	return slices.ContainsFunc(p.Partitions, func(name string) bool { return name == partition || name == everyPartition })
}
