package account

import (
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// TestActivityHasOneLineForOneAct: what happens at once for one reason is one line, with the application that it led
// to. What an administrator did stays a line of its own.
func TestActivityHasOneLineForOneAct(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ev := func(kind string, before time.Duration, client string) audit.Event {
		return audit.Event{Type: kind, Occurred: at.Add(-before), PersonID: "p", Actor: "p", ClientID: client}
	}
	other := ev("session.SessionsEndedEvent", 3*time.Minute, "")
	other.Actor = "admin"
	got := actsOf([]audit.Event{
		ev("token.IDTokenIssuedEvent", 0, "shop"), ev("login.LoginSucceededEvent", time.Second, ""),
		ev("login.StepUpSucceededEvent", time.Minute, ""),
		ev("person.RecoveryCodesMadeEvent", 2*time.Minute, ""), ev("person.StepUpMethodAddedEvent", 2*time.Minute, ""),
		ev("login.StepUpSucceededEvent", 2*time.Minute, ""),
		other, ev("person.PasswordChangedEvent", 3*time.Minute, ""), ev("session.SessionsEndedEvent", 3*time.Minute, ""),
	})
	want := []struct{ kind, application string }{
		{"login.LoginSucceededEvent", "shop"},
		{"login.StepUpSucceededEvent", ""},
		{"person.StepUpMethodAddedEvent", ""},
		{"session.SessionsEndedEvent", ""},
		{"person.PasswordChangedEvent", ""},
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i].Type != want[i].kind || got[i].application != want[i].application {
			t.Fatalf("the acts are %+v, want %+v", got, want)
		}
	}
}
