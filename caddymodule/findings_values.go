package caddymodule

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/client"
)

// checkValues finds values that are allowed each and contradict each other, and those that give something away.
func (a *App) checkValues() {
	a.checkLasting()
	a.reportFaults(client.Doubts(a.authz.Clients, a.authz.APIClients, a.authz.Trusted))
	for i := range a.persons.Providers {
		id := a.persons.Providers[i].ID
		if u, err := url.Parse(a.idps.Address(id)); err == nil && u.Host != "" && strings.EqualFold(u.Host, a.issuer.Host) {
			a.warn(kindIDP+" "+id, kindIDP+" "+id+": it is this issuer itself, so a sign-in there would never end",
				"name the provider elsewhere, or remove the block: the accounts here need none")
		}
	}
}

// checkLasting finds times that never come, since another one is over before.
func (a *App) checkLasting() {
	const fix = "make it shorter, or the other one longer"
	full := a.persons.Session.WithDefaults()
	idle, absolute, remember := a.persons.Session.Idle, full.Absolute, full.Remember
	if idle > absolute {
		a.warn("identity: session idle",
			fmt.Sprintf("identity: session idle: %s without use are never reached, since every sign-in ends after %s", idle, absolute), fix)
	}
	if remember < absolute {
		a.warn("identity: session absolute",
			fmt.Sprintf("identity: session absolute: people who ask to stay signed in stay for %s, and all others for %s", remember, absolute), fix)
	}
	for _, c := range a.authz.Clients {
		if longest := a.LongestSignIn(); c.Lifetimes.Session > longest {
			option := "client " + c.ID + ": lifetimes session"
			a.warn(option, fmt.Sprintf("%s: no sign-in becomes %s old, since each ends after %s at the latest", option,
				c.Lifetimes.Session, longest), fix)
		}
	}
}

// LongestSignIn implements protect.App.
func (a *App) LongestSignIn() time.Duration {
	full := a.persons.Session.WithDefaults()
	return max(full.Absolute, full.Remember)
}

// appPasswordsOff is the finding of a site that accepts app passwords while there are none.
func appPasswordsOff(place string) diagnostic.Finding {
	return diagnostic.Finding{
		Severity: diagnostic.Warning, Place: place, Reason: "protect: accept: app passwords are switched off, so the site takes none",
		Fix: "write `app_passwords on` in `identity` or switch them on in the settings, or remove `accept`",
	}
}
