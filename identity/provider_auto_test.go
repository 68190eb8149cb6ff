package identity_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/login"
)

// automatic is a provider that browsers are sent to without a choice.
type automatic struct{ *idptest.Provider }

func (automatic) Challenge(http.ResponseWriter, *http.Request) bool { return false }
func (automatic) Serves(netip.Addr) bool                            { return true }
func (automatic) Auto() bool                                        { return true }

// TestAutomaticProviderRefuses: a person who has not chosen the provider can still sign in by another way.
func TestAutomaticProviderRefuses(t *testing.T) {
	t.Parallel()
	tooOld := func(d *login.Demand) { d.MaxAge = time.Hour }
	for _, c := range []struct {
		name   string
		demand func(*login.Demand)
		answer func(e *elsewhere) string
		shown  bool // the other ways
	}{
		{"refused", func(*login.Demand) {}, (*elsewhere).refusing, true},
		{"too old", tooOld, (*elsewhere).longAgo, true},
		{"refused, without another way", func(d *login.Demand) { d.Providers = []string{"partner"} }, (*elsewhere).refusing, false},
		{"too old, without another way", func(d *login.Demand) { tooOld(d); d.Providers = []string{"partner"} }, (*elsewhere).longAgo, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newElsewhere(t, provider("partner", func(p *federation.Provider) { p.Source = automatic{p.Source.(*idptest.Provider)} }))
			e.asking(c.demand)
			b := e.browser()
			a := b.come(b.leave("/next"), c.answer(e))
			if is := a.Code == http.StatusOK && strings.Contains(a.Body.String(), `name="password"`); is != c.shown {
				t.Fatalf("other ways shown: %v, want %v: %d %s\n%s", is, c.shown, a.Code, a.url, a.Body)
			}
			if !c.shown {
				return
			}
			if end := b.get(b.post(a, "username", demo, "password", demoPassword).Header().Get("Location")); !strings.HasPrefix(end.Body.String(), "signed in as ") {
				t.Errorf("by a password: %d %s\n%s", end.Code, end.url, end.Body)
			}
		})
	}
}

func (e *elsewhere) refusing() string {
	return e.partner.Answer(nil, &idp.Rejection{Reason: "NTLM"})
}

func (e *elsewhere) longAgo() string {
	return e.partner.Answer(&idp.Identity{Subject: "ann", Level: 1, AuthTime: e.clock.Now().Add(-2 * time.Hour)}, nil)
}
