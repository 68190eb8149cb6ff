package federation_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// automatic is a provider that browsers are sent to without a choice.
type automatic struct{ *idptest.Provider }

func (automatic) Challenge(http.ResponseWriter, *http.Request) bool { return false }
func (automatic) Serves(netip.Addr) bool                            { return true }
func (automatic) Auto() bool                                        { return true }

// TestAutomaticProviderRefuses: a person who has not chosen the provider can still sign in by another way.
func TestAutomaticProviderRefuses(t *testing.T) {
	t.Parallel()
	tooOld := func(d *authn.Demand) { d.MaxAge = time.Hour }
	for _, c := range []struct {
		name   string
		demand func(*authn.Demand)
		answer func(e *identitytest.Federated) string
		shown  bool // the other ways
	}{
		{"refused", func(*authn.Demand) {}, (*identitytest.Federated).Refusing, true},
		{"too old", tooOld, (*identitytest.Federated).LongAgo, true},
		{"refused, without another way", func(d *authn.Demand) { d.Providers = []string{"partner"} }, (*identitytest.Federated).Refusing, false},
		{
			"too old, without another way", func(d *authn.Demand) { tooOld(d); d.Providers = []string{"partner"} },
			(*identitytest.Federated).LongAgo, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := identitytest.NewFederated(t,
				identitytest.WithProvider("partner", func(p *federation.Provider) { p.Source = automatic{p.Source.(*idptest.Provider)} }))
			e.Asking(c.demand)
			b := e.Browser()
			a := b.Come(b.Leave("/next"), c.answer(e))
			if is := a.Code == http.StatusOK && strings.Contains(a.Body.String(), `name="password"`); is != c.shown {
				t.Fatalf("other ways shown: %v, want %v: %d %s\n%s", is, c.shown, a.Code, a.URL, a.Body)
			}
			if !c.shown {
				return
			}
			if end := b.Get(b.Post(a, "username", identitytest.Demo, "password",
				identitytest.DemoPassword).Header().Get("Location")); !strings.HasPrefix(end.Body.String(), "signed in as ") {
				t.Errorf("by a password: %d %s\n%s", end.Code, end.URL, end.Body)
			}
		})
	}
}
