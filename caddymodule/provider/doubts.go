package provider

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider/attribute"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider/loginmethod"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
)

// This file warns of options that are allowed and probably not meant: words of a pair in the wrong order, and details
// that no one reads under that name.

// doubt warns of a pair of an attribute and a detail that is probably wrong. foreign reports whether a word is an
// attribute at providers of this kind, and not a detail.
func doubt(r *caddyfileutil.Resolver, option, from, to string, foreign attribute.Foreign) {
	if caddyfileutil.HasPlaceholder(from) || caddyfileutil.HasPlaceholder(to) {
		return
	}
	switch meant := settings.MeantClaim(to); {
	case attribute.Swapped(from, to, foreign):
		r.Lack(caddyfileutil.Fault{
			Option: option, Reason: fmt.Sprintf("%s %s %s: the attribute of the provider comes first, and then the detail, so no one gets the detail %s", option, from, to, from),
			Fix: fmt.Sprintf("write `%s %s %s`", option, to, from),
		})
	case meant != "":
		r.Lack(caddyfileutil.Fault{
			Option: option, Reason: fmt.Sprintf("%s %s %s: no standard detail is called %q", option, from, to, to),
			Fix: fmt.Sprintf("did you mean %q?", meant),
		})
	}
}

// doubtDetails warns of pairs and constants of a provider that are probably wrong.
func (o *RemoteOptions) doubtDetails(r *caddyfileutil.Resolver, foreign attribute.Foreign) {
	for _, m := range o.Map {
		doubt(r, "map", m.From, m.To, foreign)
	}
	for _, c := range o.Constants {
		switch meant := settings.MeantClaim(c.Detail); {
		case caddyfileutil.HasPlaceholder(c.Detail):
		case isDetail(c.Value) && !isDetail(c.Detail):
			r.Lack(caddyfileutil.Fault{
				Option: "constant", Reason: fmt.Sprintf("constant %s %s: the detail comes first, and then its value", c.Detail, c.Value),
				Fix: fmt.Sprintf("write `constant %s %s`", c.Value, c.Detail),
			})
		case meant != "":
			r.Lack(caddyfileutil.Fault{
				Option: "constant", Reason: fmt.Sprintf("constant %s: no standard detail has this name", c.Detail),
				Fix: fmt.Sprintf("did you mean %q?", meant),
			})
		}
	}
}

// doubtPort warns of the address of a directory whose port is usually that of the other scheme. reason is "" if it is
// not.
func doubtPort(address string) (reason, fix string) {
	u, err := url.Parse(address)
	if err != nil {
		return "", ""
	}
	switch port := u.Port(); {
	case u.Scheme == "ldaps" && (port == "389" || port == "3268"):
		fix = fmt.Sprintf("write `ldaps://%s`, or `ldap://%s` with `starttls`", u.Hostname(), u.Host)
	case u.Scheme == "ldap" && (port == "636" || port == "3269"):
		fix = fmt.Sprintf("write `ldaps://%s`", u.Host)
	default:
		return "", ""
	}
	return fmt.Sprintf("url %s: directories usually speak the other scheme at port %s", address, u.Port()), fix
}

// doubts returns warnings about a stored login method that is allowed and probably not meant.
func doubts(m *settings.LoginMethod) (out []idp.Warning) {
	if m.LDAP == nil {
		return nil
	}
	for _, address := range loginmethod.ServerURLs(m.LDAP) {
		if reason, fix := doubtPort(address); reason != "" {
			out = append(out, idp.Warning{Reason: reason, Advice: fix})
		}
	}
	return out
}

// isDetail reports whether a word is exactly the name of a detail.
func isDetail(word string) bool {
	return settings.IsClaim(word) || slices.Contains([]string{"email_verified", "phone_number_verified"}, word)
}
