package modeltest

import (
	cryptorand "crypto/rand"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	rounds "github.com/gatehouse-id/gatehouse/internal/modeltest"
	"github.com/gatehouse-id/gatehouse/storage"
)

var randomReader = cryptorand.Reader

// stepsOfAWorld bounds a world, whose events fill the memory.
const stepsOfAWorld = 5000

// TestAnswersFromMemoryAreThoseOfTheStore makes as many steps as GATEHOUSE_ANSWERS says (make faults: 1,000,000). After
// each, servers that keep answers say of tokens and cookies what servers say that keep none, and open requests whose
// answer has changed were woken.
func TestAnswersFromMemoryAreThoseOfTheStore(t *testing.T) {
	t.Parallel()
	steps := rounds.Rounds(3000, 2*stepsOfAWorld)
	if s := os.Getenv("GATEHOUSE_ANSWERS"); s != "" {
		var err error
		if steps, err = strconv.Atoi(s); err != nil {
			t.Fatalf("GATEHOUSE_ANSWERS = %q, want a number", s)
		}
	}
	seen := map[string]int{}
	for seed := uint64(1); steps > 0; seed++ {
		m := &model{world: newWorld(t), rand: rand.New(rand.NewPCG(seed, 0)), seed: seed, seen: seen} //nolint:gosec // repeatable
		m.run(min(steps, stepsOfAWorld))
		m.close()
		steps -= stepsOfAWorld
		if t.Failed() {
			return
		}
	}
	for _, what := range append(slices.Clone(allSteps), "active", "inactive", "in the midst of a read", "woken") {
		if seen[what] == 0 {
			t.Errorf("the steps have not come to: %s", what)
		}
	}
	t.Log(seen)
}

// model is a world, what was issued in it, and where its random steps are.
type model struct {
	*world
	rand *rand.Rand
	seed uint64
	step int
	last []string // what the last steps did
	held []credential
	seen map[string]int

	sleepers map[string]*sleeper // by the text of the credential
}

// credential is a token, or the cookie of a site.
type credential struct {
	text    string
	limited bool
	session string // of the issuer; empty: a token
}

var allSteps = []string{
	"token of a client", "JWT", "token of a person", "JWT of a person", "limited token", "site", "use", "revoke", "revoke all of a person",
	"end the sessions of a person",
	"sign out of a site", "block", "unblock", "sign out everywhere", "permissions", "members", "rename a group", "profile", "disable a client",
	"scopes of a client", "revoke a client",
	"revoke everything", "reload", "clock", "long clock", "sweep",
}

// weights make steps rarer that end everything.
var weights = map[string]int{
	"revoke everything": 1, "long clock": 1, "revoke a client": 1, "reload": 1, "sweep": 1, "disable a client": 1, "block": 1,
	"revoke all of a person":       1,
	"end the sessions of a person": 1, "sign out everywhere": 1, "unblock": 8, "clock": 8,
	"token of a person": 16, "JWT of a person": 8, "site": 16, "token of a client": 8,
}

func (m *model) run(steps int) {
	var deck []string
	for _, s := range allSteps {
		for range max(weights[s], 3-2*min(weights[s], 1)) {
			deck = append(deck, s)
		}
	}
	for m.step = range steps {
		what := deck[m.rand.IntN(len(deck))]
		if m.rand.IntN(4) == 0 && len(m.held) > 0 {
			m.inTheMidst(what)
		} else {
			m.do(what)
		}
		m.wakeSleepers()
		for range 3 {
			m.compare(m.some())
		}
		if m.step%16 == 0 {
			for _, c := range m.held {
				m.compare(c)
			}
		}
		if m.t.Failed() {
			m.t.Fatalf("seed %d, step %d, after: %q", m.seed, m.step, m.last)
		}
	}
}

// inTheMidst does a step while a credential is read from the store: after the snapshot was taken, or after everything
// was read and before the answer is kept.
func (m *model) inTheMidst(what string) {
	c, done := m.some(), false
	during := func() { done = true; m.do(what) }
	if m.rand.IntN(2) == 0 {
		m.store.before = during
	} else {
		m.store.after = during
	}
	p := m.servers[m.rand.IntN(len(m.servers))]
	m.ask(p.cached, c)
	m.store.before, m.store.after = nil, nil
	if !done { // it was in memory
		m.do(what)
		return
	}
	m.seen["in the midst of a read"]++
	m.compare(c)
}

func (m *model) some() credential {
	if len(m.held) == 0 {
		return credential{text: "unknown"}
	}
	return m.held[m.rand.IntN(len(m.held))]
}

func (m *model) hold(c credential) {
	if len(m.held) < 14 {
		m.held = append(m.held, c)
	} else {
		m.held[m.rand.IntN(len(m.held))] = c
	}
}

// said is the response of a server about a credential.
type said struct {
	In, There *token.Introspection
	HTTP      string
}

func (m *model) ask(s *authz.Server, c credential) said {
	m.t.Helper()
	ctx := m.t.Context()
	var out said
	var err error
	if c.session != "" {
		out.In, err = s.SiteSession(ctx, wiki, c.text, "")
		m.must(err)
		out.There, err = s.SiteSession(ctx, files, c.text, "")
		m.must(err)
		return out
	}
	out.In, err = s.Introspect(ctx, c.text)
	m.must(err)
	if !c.limited { // it would be a use
		out.HTTP = post(s, "/oauth/api/v2/token/introspect", "ops", url.Values{"token": {c.text}}).Body.String()
	}
	return out
}

func (m *model) compare(c credential) {
	m.t.Helper()
	for i, p := range m.servers {
		got := m.ask(p.cached, c)
		if c.session != "" && got.In.Active {
			m.wantMarked(c) // before the other server marks it
		}
		want := m.ask(p.plain, c)
		if !reflect.DeepEqual(got, want) {
			g, _ := json.Marshal(got)
			w, _ := json.Marshal(want)
			m.t.Errorf("server %d: from memory %s, from the store %s", i, g, w)
		}
		if !want.In.Active {
			m.seen["inactive"]++
			continue
		}
		m.seen["active"]++
	}
}

// wantMarked: a session that is used at a site does not go idle, wherever the answers come from.
func (m *model) wantMarked(c credential) {
	m.t.Helper()
	m.must(m.disk.View(m.t.Context(), func(tx storage.Tx) error {
		rec, err := session.Records.Get(tx, c.session)
		if err == nil && m.now.Sub(rec.Seen) >= time.Minute {
			m.t.Errorf("the session was marked as used %s ago", m.now.Sub(rec.Seen))
		}
		return err
	}))
}

// do makes a step. Steps that are refused, such as a token for a blocked person, change nothing.
func (m *model) do(what string) {
	if m.last = append(m.last, what); len(m.last) > 12 {
		m.last = m.last[1:]
	}
	m.seen[what]++
	ctx, s, who := m.t.Context(), m.server(), m.persons[m.rand.IntN(len(m.persons))]
	owns := []string{"own", "stored", "shop"}[m.rand.IntN(3)]
	group := m.groups[m.rand.IntN(len(m.groups))]
	var err error
	switch what {
	case "token of a client":
		m.issue(owns, url.Values{"grant_type": {"client_credentials"}})
	case "JWT":
		m.issue("jwt", url.Values{"grant_type": {"client_credentials"}})
	case "token of a person":
		m.issue(owns, url.Values{"grant_type": {"password"}, "username": {who}, "password": {"x"}, "scope": {"openid groups permissions orders"}})
	case "JWT of a person":
		m.issue("jwt", url.Values{"grant_type": {"password"}, "username": {who}, "password": {"x"}, "scope": {"openid groups"}})
	case "limited token":
		m.issue(owns, url.Values{"grant_type": {"client_credentials"}, "scope": {"twice"}})
	case "site":
		if cookie, id := m.openSite(who); cookie != "" {
			m.hold(credential{text: cookie, session: id})
		}
	case "use":
		if c := m.some(); c.session == "" {
			_, err = s.Use(ctx, c.text)
		}
	case "revoke":
		if c := m.some(); c.session == "" {
			err = s.RevokeToken(ctx, c.text, admin)
		}
	case "revoke all of a person":
		err = s.EndHeld(ctx, who, "tokens", "", admin)
	case "end the sessions of a person":
		err = s.EndHeld(ctx, who, "sessions", "", admin)
	case "sign out of a site":
		if c := m.some(); c.session != "" {
			_, err = s.EndSite(ctx, wiki, c.text)
		}
	case "block":
		err = m.id.Person.SetState(ctx, who, person.Blocked, admin)
	case "unblock":
		err = m.id.Person.SetState(ctx, who, person.Active, admin)
	case "sign out everywhere":
		err = m.id.Person.EndSessions(ctx, who, admin)
	case "permissions", "members", "rename a group":
		_, err = m.id.Person.UpdateGroup(ctx, group, admin, func(_ storage.Tx, _ person.Group, c *person.GroupChange) error {
			m.changeGroup(what, who, c)
			return nil
		})
		if errors.Is(err, person.ErrGroupTaken) {
			err = nil
		}
	case "profile":
		_, err = m.id.Person.UpdatePerson(ctx, who, person.Edit{By: admin}, func(_ storage.Tx, d *person.Details) error {
			d.Profile.Name.DisplayName = "Name " + strconv.Itoa(m.rand.IntN(3))
			return nil
		})
	case "disable a client":
		err = s.Clients().Change(ctx, "stored", what, admin, func(c *client.Client) error { c.Disabled = !c.Disabled; return nil })
	case "scopes of a client":
		err = s.Clients().Change(ctx, "stored", what, admin, func(c *client.Client) error {
			c.Scopes = append([]string{"openid", "orders", "twice", "groups"}, []string{"permissions"}[:m.rand.IntN(2)]...)
			return nil
		})
	case "revoke a client":
		if err = s.Clients().Revoke(ctx, owns, admin); errors.Is(err, clientstore.ErrUnknown) {
			err = nil
		}
	case "revoke everything":
		err = s.RevokeEverything(ctx, admin)
		for i := range m.servers { // another store knows of it from the next start on
			m.servers[i].plain = m.start(m.servers[i].cfg, plain{m.disk})
		}
	case "reload":
		m.reload(m.changedConfig())
	case "clock":
		m.now = m.now.Add([]time.Duration{time.Second, 30 * time.Second, time.Minute, 7 * time.Minute}[m.rand.IntN(4)])
	case "long clock":
		m.now = m.now.Add([]time.Duration{time.Hour, 13 * time.Hour}[m.rand.IntN(2)])
	case "sweep":
		_, err = m.disk.Sweep(ctx)
	default:
		m.t.Fatalf("no such step: %s", what)
	}
	if err != nil {
		m.t.Fatalf("%s: %v", what, err)
	}
}

func (m *model) issue(clientID string, form url.Values) {
	rec := post(m.server(), "/oauth/token", clientID, form)
	var answer struct {
		Token string `json:"access_token"`
	}
	if rec.Code == http.StatusOK && json.Unmarshal(rec.Body.Bytes(), &answer) == nil {
		m.hold(credential{text: answer.Token, limited: form.Get("scope") == "twice"})
	} else if rec.Code >= http.StatusInternalServerError {
		m.t.Fatalf("token = %d %s", rec.Code, rec.Body)
	}
}

func (m *model) changeGroup(what, who string, c *person.GroupChange) {
	switch n := strconv.Itoa(m.rand.IntN(3)); what {
	case "permissions":
		c.Permissions = []string{"a." + n}
	case "rename a group":
		c.Name = "group " + n
	default:
		if m.rand.IntN(2) == 0 {
			c.Add = []string{who}
		} else {
			c.Remove = []string{who}
		}
	}
}

// changedConfig takes scopes from a client or gives them back, and disables another one now and then.
func (m *model) changedConfig() authz.Config {
	cfg := m.cfg
	cfg.Clients = nil
	for _, old := range m.cfg.Clients {
		c := m.client(old.ID)
		c.TokenFormat = old.TokenFormat
		if m.rand.IntN(3) == 0 {
			c.Scopes, c.DefaultScopes = []string{"openid", "orders"}, []string{"orders"}
		}
		c.Disabled = m.rand.IntN(6) == 0
		cfg.Clients = append(cfg.Clients, c)
	}
	return cfg
}
