package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// post is a request that a hook has received.
type post struct {
	header http.Header
	body   map[string]string
}

// hook is a service that accepts messages until it is told to refuse them.
type hook struct {
	*httptest.Server
	down    atomic.Bool
	refused atomic.Int64
	posts   chan post
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{posts: make(chan post, 100)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			return
		}
		if h.down.Load() {
			h.refused.Add(1)
			http.Error(w, "not now", http.StatusInternalServerError)
			return
		}
		p := post{header: r.Header}
		if err := json.NewDecoder(r.Body).Decode(&p.body); err != nil {
			t.Errorf("a hook received something other than JSON: %v", err)
		}
		h.posts <- p
	}))
	t.Cleanup(h.Close)
	return h
}

// next returns the next request.
func (h *hook) next(t *testing.T) post {
	t.Helper()
	select {
	case p := <-h.posts:
		return p
	case <-time.After(60 * time.Second):
		t.Fatal("nothing was posted")
		return post{}
	}
}

// imports sets configuration units.
func (s *server) imports(t *testing.T, units string) {
	t.Helper()
	file := filepath.Join(s.dir, "units.json")
	if err := os.WriteFile(file, []byte(units), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("", "config", "import", file)
}

// textedCode is a code in a text message.
var textedCode = regexp.MustCompile(`\b[0-9]{6}\b`)

// TestSMSStepUp: an application demands level 2. A person sets up a telephone on the way, through a service that
// refuses the first message; in another browser a code reaches the level; and a code that the operator delivers does
// too.
func TestSMSStepUp(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	texts := newHook(t)
	p, s := openShopEdited(t, func(caddyfile string) string {
		lines := "\n\t\tsms webhook " + texts.URL +
			"/send {\n\t\t\theader Authorization Bearer of-the-gateway\n\t\t\tfrom The gate\n\t\t}\n\t\tidentity {"
		return strings.Replace(caddyfile, "\n\t\tidentity {", lines, 1)
	})
	s.secret("token of the gateway", "of-the-gateway")
	if out, err := s.gatehouse("", "gatehouse", "--address", s.Admin, "check"); !strings.Contains(out, "sms            ok (0 waiting)") {
		t.Errorf("check = %s, %v", out, err)
	}
	s.imports(t, `{"features":{"sms_enabled":true,"externally_delivered_code_step_up":{"enabled":true,"expiration_time":600}},"step_up":{"actions":{"allow_set_initial_step_up_method_enabled":true}}}`)
	demand := p.address + "/?" + url.Values{"acr_values": {"urn:gatehouse:level:2"}}.Encode()

	b := s.browse(t)
	b.open(s.Issuer + "/account/security/sms")
	b.signIn(person, s.Password)
	inspect(b, "sms-number", string(axe))
	b.fill("#number", "06 12345678")
	b.click("main form button:not([type])")
	inspect(b, "sms-number-wrong", string(axe))
	texts.down.Store(true)
	b.fill("#number", "+31 6 12345678")
	b.click("main form button:not([type])") // answered at once, whatever the service does
	inspect(b, "sms-code", string(axe))
	for texts.refused.Load() == 0 {
		b.text("h1")
	}
	texts.down.Store(false)
	got := texts.next(t)
	code := textedCode.FindString(got.body["text"])
	if got.body["to"] != "+31612345678" || got.body["from"] != "The gate" || got.body["id"] == "" ||
		got.header.Get("Idempotency-Key") != got.body["id"] ||
		got.header.Get("Authorization") != "Bearer of-the-gateway" || !strings.HasSuffix(got.body["text"], "#"+code) {
		t.Errorf("posted: %+v", got)
	}
	s.secret("code", code)
	b.fill("#code", code)
	b.click("main form button:not([name])")
	b.reaches(s.Issuer + "/account/security")
	inspect(b, "security-sms", string(axe))

	other := s.browse(t)
	other.open(demand)
	other.signIn(person, s.Password)
	inspect(other, "step-up-sms-send", string(axe)) // the method used last
	other.click("main p.aside a")
	inspect(other, "step-up-choose-sms", string(axe))
	other.click("main ul.providers a[href*='method=sms']")
	other.click("main form button[name=send]")
	inspect(other, "step-up-sms", string(axe))
	code = textedCode.FindString(texts.next(t).body["text"])
	s.secret("code of the step-up", code)
	other.fill("#code", code)
	other.click("main form button:not([name])")
	other.click("button[value=allow]")
	other.reaches(p.address)

	third := s.browse(t)
	third.open(demand)
	third.signIn(person, s.Password)
	third.click("main p.aside a")
	third.click("main ul.providers a[href*='method=delivered']")
	inspect(third, "step-up-delivered", string(axe))
	third.click("main form button[name=send]")
	inspect(third, "step-up-delivered-asked", string(axe))
	out := s.must("", "person", "code", person, "--for", "step-up")
	delivered := regexp.MustCompile(`[3-9A-Y]{4}-[3-9A-Y]{4}`).FindString(out)
	if delivered == "" {
		t.Fatalf("person code = %s", out)
	}
	s.secret("delivered code", delivered)
	third.fill("#code", strings.ToLower(delivered))
	third.click("main form button:not([name])")
	third.reaches(p.address)
}
