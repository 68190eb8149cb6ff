package grant_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/modeltest"
)

// family is the model of one code and its tokens.
type family struct {
	code      string
	dead      bool
	refreshes []modelRefresh
	accesses  []modelAccess
}

type modelRefresh struct {
	token   string
	spentAt time.Time
	expires time.Time
}

type modelAccess struct {
	token   string
	revoked bool
	expires time.Time
}

// model predicts the result of each step by the rules of docs/decisions/token-endpoint.md#refresh.
type model struct {
	h        *authztest.Harness
	browser  *authztest.Browser
	families []*family
}

// on is a step with one of the families; without a family it does nothing.
func (m *model) on(step func(*rapid.T, *family)) func(*rapid.T) {
	return func(t *rapid.T) {
		if len(m.families) > 0 {
			step(t, rapid.SampledFrom(m.families).Draw(t, "family"))
		}
	}
}

func (m *model) redeem(t *rapid.T) {
	if len(m.families) == 4 {
		return // enough
	}
	f := &family{code: m.browser.Code("shop", "scope", "orders.read")}
	res := m.h.Redeem("shop", f.code)
	if res.Status != 200 {
		t.Fatalf("redeem = %d %s", res.Status, res.Body)
	}
	f.add(m.h, res)
	m.families = append(m.families, f)
}

func (f *family) add(h *authztest.Harness, res *authztest.Response) {
	now := h.Clock.Now()
	f.refreshes = append(f.refreshes, modelRefresh{token: res.Text("refresh_token"), expires: now.Add(30 * 24 * time.Hour)})
	f.accesses = append(f.accesses, modelAccess{token: res.Text("access_token"), expires: now.Add(15 * time.Minute)})
}

func (m *model) refresh(t *rapid.T, f *family) {
	// The newest more often than the others.
	i := max(0, len(f.refreshes)-1-rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 5}).Draw(t, "back"))
	r := &f.refreshes[i]
	now := m.h.Clock.Now()
	res := m.h.Refresh("shop", r.token)
	switch {
	case f.dead || !r.expires.After(now):
		m.want(t, "dead or expired", res, 400)
	case r.spentAt.IsZero():
		m.want(t, "fresh", res, 200)
		r.spentAt = now
		f.add(m.h, res)
	case now.Sub(r.spentAt) < grace && f.refreshes[i+1].spentAt.IsZero():
		m.want(t, "within the grace", res, 200)
		if got := res.Text("refresh_token"); got != f.refreshes[i+1].token {
			t.Fatalf("within the grace: another successor")
		}
	default:
		m.want(t, "reuse", res, 400)
		f.dead = true
	}
}

func (m *model) replay(t *rapid.T, f *family) {
	m.want(t, "replay", m.h.Redeem("shop", f.code), 400)
	f.dead = true
}

func (m *model) foreign(t *rapid.T, f *family) {
	m.want(t, "another client's refresh", m.h.Refresh("other", f.refreshes[len(f.refreshes)-1].token), 400)
	m.want(t, "another client's revoke", m.h.Revoke("other", f.refreshes[0].token), 200)
	m.want(t, "another client's code", m.h.Token("other", m.h.CodeForm("shop", f.code)), 400)
}

func (m *model) revokeAccess(t *rapid.T, f *family) {
	a := &f.accesses[rapid.IntRange(0, len(f.accesses)-1).Draw(t, "access")]
	m.want(t, "revoke access", m.h.Revoke("shop", a.token), 200)
	a.revoked = true
}

func (m *model) revokeRefresh(t *rapid.T, f *family) {
	r := f.refreshes[rapid.IntRange(0, len(f.refreshes)-1).Draw(t, "refresh")]
	m.want(t, "revoke refresh", m.h.Revoke("shop", r.token), 200)
	f.dead = true
}

func (m *model) changePassword(*rapid.T) {
	m.h.People.Change(authztest.Demo, func(p *authn.Subject) { p.Epoch++ })
	for _, f := range m.families {
		f.dead = true
	}
}

func (m *model) restart(*rapid.T) { m.h.Restart(nil) }

func (m *model) advance(t *rapid.T) {
	m.h.Clock.Advance(rapid.SampledFrom([]time.Duration{3 * time.Second, 9 * time.Second, 11 * time.Second, 16 * time.Minute}).Draw(t, "time"))
}

func (m *model) want(t *rapid.T, what string, res *authztest.Response, status int) {
	if res.Status != status {
		t.Fatalf("%s = %d %s, want %d", what, res.Status, res.Body, status)
	}
}

// check compares every token with the model.
func (m *model) check(t *rapid.T) {
	now := m.h.Clock.Now()
	for i, f := range m.families {
		for j, a := range f.accesses {
			m.wantActive(t, fmt.Sprintf("family %d access %d", i, j), a.token, !f.dead && !a.revoked && a.expires.After(now))
		}
		for j, r := range f.refreshes {
			m.wantActive(t, fmt.Sprintf("family %d refresh %d", i, j), r.token, !f.dead && r.spentAt.IsZero() && r.expires.After(now))
		}
	}
}

func (m *model) wantActive(t *rapid.T, what, token string, want bool) {
	if got := m.h.Active(token); got != want {
		t.Fatalf("%s: active = %t, want %t", what, got, want)
	}
}

// Any sequence of refreshes, replays, revocations, restarts and waiting leaves every token as the rules say.
func TestRefreshModel(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	modeltest.Check(t, func(rt *rapid.T) {
		m := &model{h: h, browser: h.Browser(authztest.Demo)}
		rt.Repeat(map[string]func(*rapid.T){
			"redeem": m.redeem, "refresh": m.on(m.refresh), "refresh again": m.on(m.refresh), "replay": m.on(m.replay), "foreign": m.on(m.foreign),
			"revoke access": m.on(m.revokeAccess), "revoke refresh": m.on(m.revokeRefresh), "password": m.changePassword, "restart": m.restart,
			"advance": m.advance, "": m.check,
		})
	})
}
