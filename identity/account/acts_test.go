package account_test

import (
	"html"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// activityLine matches what a line of the activity page says of an act.
var activityLine = regexp.MustCompile(`You signed in|You confirmed it’s you|A verification method was added|Sessions were ended|` +
	`Your password was changed|ecovery codes|App: The shop|By a [^<]* administrator`)

// TestActivityHasOneLineForOneAct: what happens at once for one reason is one line, with the application that it led
// to. What an administrator did stays a line of its own.
func TestActivityHasOneLineForOneAct(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	h.Account.Tie(&given{})
	id := h.Details(identitytest.Demo).ID
	h.Clock.Advance(10 * time.Minute)
	at := h.Clock.Now()
	err := h.Store.Update(t.Context(), func(tx storage.Tx) error {
		for _, ev := range []struct {
			kind          string
			before        time.Duration
			client, actor string
		}{
			{"session.SessionsEndedEvent", 3 * time.Minute, "", id},
			{"person.PasswordChangedEvent", 3 * time.Minute, "", id},
			{"session.SessionsEndedEvent", 3 * time.Minute, "", "admin"},
			{"person.StepUpMethodAddedEvent", 2 * time.Minute, "", id},
			{"person.RecoveryCodesMadeEvent", 2 * time.Minute, "", id},
			{"login.StepUpSucceededEvent", 2 * time.Minute, "", id},
			{"login.StepUpSucceededEvent", time.Minute, "", id},
			{"login.LoginSucceededEvent", time.Second, "", id},
			{"token.IDTokenIssuedEvent", 0, "shop", id},
		} {
			e, err := h.Deps.Events.New(audit.Type{Type: ev.kind}, audit.Origin{})
			if err != nil {
				return err
			}
			e.Occurred, e.PersonID, e.Actor, e.ClientID = at.Add(-ev.before), id, ev.actor, ev.client
			if err := h.Deps.Events.Append(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got := activityLine.FindAllString(html.UnescapeString(b.Get("/account/activity").Body.String()), -1)
	want := []string{
		"You signed in", "App: The shop", "You confirmed it’s you", "A verification method was added",
		"Sessions were ended", "By a Gatehouse administrator", "Your password was changed",
		"You signed in", "App: The shop", "By a Gatehouse administrator", // before: the sign-in and the new account
	}
	if !slices.Equal(got, want) {
		t.Errorf("the lines are %q, want %q", got, want)
	}
}
