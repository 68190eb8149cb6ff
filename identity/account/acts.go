package account

import (
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// atOnce is the maximum distance between the events of one act.
const atOnce = 2 * time.Second

// byTheWay are types of events that follow from another one, and say nothing new to the person next to it.
var byTheWay = []string{
	"login.StepUpSucceededEvent", "login.TrustedBrowserUsedEvent", "person.RecoveryCodesMadeEvent", "person.PersonUpdatedEvent",
	"person.PersonActivatedEvent",
	"session.SessionEndedEvent", "session.SessionsEndedEvent", "token.IDTokenIssuedEvent", "token.RefreshTokenRevokedEvent",
	"token.EverythingRevokedEvent",
}

// act is one act in the eyes of a person: an event, and the application that it led to.
type act struct {
	audit.Event
	application string // id. Empty: none
}

// actsOf returns the acts of events, the newest first. What someone else did is never part of an act of the person.
func actsOf(list []audit.Event) (out []act) {
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n-1].Occurred.Sub(list[n].Occurred) <= atOnce && byAnother(list[n]) == byAnother(list[0]) {
			n++
		}
		out = append(out, merge(list[:n])...)
		list = list[n:]
	}
	return out
}

// merge returns the acts among events of the same moment: those that only follow from others are left out.
func merge(list []audit.Event) (out []act) {
	follows := func(e audit.Event) bool { return slices.Contains(byTheWay, e.Type) }
	alone := !slices.ContainsFunc(list, func(e audit.Event) bool { return !follows(e) })
	led := ""
	for _, e := range list {
		switch {
		case alone, !follows(e):
			out = append(out, act{e, e.ClientID})
		case e.ClientID != "":
			led = e.ClientID
		}
	}
	for i := range out {
		if out[i].application == "" && out[i].Type == "login.LoginSucceededEvent" {
			out[i].application = led
		}
	}
	return out
}
