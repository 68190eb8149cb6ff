package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Which roles may do what, to whom: a row for each screen and each act, by their paths. Columns: viewer, helpdesk,
// operator, owner. An act on a person has four letters for each kind of person: no one without a role, someone with a
// lower role, with the same role, with a higher role; + may, - may not, . there is no such person.
var rights = map[string][4]string{
	"":                {"+", "+", "+", "+"},
	"/search":         {"+", "+", "+", "+"},
	"/persons":        {"+", "+", "+", "+"},
	"/persons/create": {"-", "-", "+", "+"},
	"/persons/invite": {"-", "+", "+", "+"},
	"/groups":         {"+", "+", "+", "+"},
	"/sessions":       {"+", "+", "+", "+"},
	"/applications":   {"+", "+", "+", "+"},

	"/sessions/end-listed":       looksAfter,
	"/applications/{id}/preview": {"+", "+", "+", "+"},

	"/applications/{id}/connection": {"+", "+", "+", "+"},

	"/events":                   {"+", "+", "+", "+"},
	"/events.csv":               {"+", "+", "+", "+"},
	"/events/live":              {"+", "+", "+", "+"},
	"/events/alerts":            {"+", "+", "+", "+"},
	"/events/chain":             {"+", "+", "+", "+"},
	"/events/chain/check-chain": operator,

	"/events/alerts/save-alert":        operator,
	"/events/alerts/{id}":              {"+++", "+++", "+++", "+++"}, // one's own, that of an operator, and of an owner
	"/events/alerts/{id}/edit-alert":   alerts,
	"/events/alerts/{id}/test-alert":   alerts,
	"/events/alerts/{id}/pause-alert":  alerts,
	"/events/alerts/{id}/resume-alert": alerts,
	"/events/alerts/{id}/remove-alert": alerts,

	"/events/{id}":       {"+", "+", "+", "+"},
	"/applications/{id}": {"+", "+", "+", "+"},
	"/persons/{id}":      {"+.++", "++++", "++++", "+++."},
	"/groups/{id}":       {"++", "++", "++", "++"}, // a group, and one that gives a role
	"/sites":             {"+", "+", "+", "+"},
	"/sites/explain":     {"+", "+", "+", "+"},
	"/sites/{id}":        {"+", "+", "+", "+"},
	"/sites/{id}/doctor": operator,
	"/refusals":          {"+", "+", "+", "+"},
	"/refusals/{id}":     {"+", "+", "+", "+"},

	"/limits":                  {"+", "+", "+", "+"},
	"/limits/lift-limit":       operator,
	"/limits/usage":            {"+", "+", "+", "+"},
	"/limits/usage.csv":        {"+", "+", "+", "+"},
	"/calls":                   {"+", "+", "+", "+"},
	"/calls.csv":               {"+", "+", "+", "+"},
	"/persons/export":          operator,
	"/persons/import":          operator,
	"/jobs/{id}/run-import":    operator,
	"/jobs/{id}/import-report": operator,

	"/persons/block-many":   looksAfter,
	"/persons/unblock-many": looksAfter,
	"/persons/end-many":     looksAfter,
	"/persons/join-many":    operator,
	"/persons/leave-many":   operator,
	"/jobs/{id}":            {"+", "+", "+", "+"},
	"/jobs/{id}/stop-job":   looksAfter,

	"/requests":                     {"+", "+", "+", "+"},
	"/requests/{id}":                {"++", "++", "++", "++"}, // of someone without a role, and of an owner
	"/requests/{id}/grant":          {"--", "--", "+-", "++"},
	"/requests/{id}/refuse":         {"--", "--", "+-", "++"},
	"/requests/{id}/revoke-access":  {"--", "--", "+-", "++"},
	"/policies":                     {"+", "+", "+", "+"},
	"/policies/{id}":                {"++", "++", "++", "++"}, // one of the Caddyfile, and a stored one
	"/policies/add-policy":          operator,
	"/policies/{id}/test-policy":    {"++", "++", "++", "++"},
	"/policies/{id}/edit-policy":    {"--", "--", "++", "++"},
	"/policies/{id}/remove-policy":  {"--", "--", "++", "++"},
	"/persons/{id}/opens":           {"+.++", "++++", "++++", "+++."},
	"/persons/{id}/edit":            helpdesk,
	"/persons/{id}/reset":           helpdesk,
	"/persons/{id}/link":            {"-.--", "----", "----", "+++."},
	"/persons/{id}/invite-again":    helpdesk,
	"/persons/{id}/unlock":          helpdesk,
	"/persons/{id}/end":             helpdesk,
	"/persons/{id}/end-session":     helpdesk,
	"/persons/{id}/untrust":         helpdesk,
	"/persons/{id}/untrust-all":     helpdesk,
	"/persons/{id}/revoke":          helpdesk,
	"/persons/{id}/withdraw":        helpdesk,
	"/persons/{id}/revoke-password": helpdesk,
	"/persons/{id}/remove-method":   helpdesk,
	"/persons/{id}/verify":          helpdesk,
	"/persons/{id}/unlink":          helpdesk,
	"/persons/{id}/code":            persons,
	"/persons/{id}/data":            persons,
	"/persons/{id}/join":            {"-.--", "----", "++--", "+++."},
	"/persons/{id}/leave":           {"-.--", "----", "++--", "+++."},
	"/persons/{id}/block":           {"-.--", "++--", "++--", "++-."},
	"/persons/{id}/unblock":         {"-.--", "++--", "++--", "++-."},
	"/persons/{id}/merge":           persons,
	"/persons/{id}/see-as":          {"-.--", "----", "++--", "++-."},
	"/persons/{id}/remove":          {"-.--", "----", "++--", "++-."},

	"/groups/create-group":       {"-", "-", "+", "+"},
	"/groups/{id}/add-member":    {"--", "--", "+-", "++"},
	"/groups/{id}/remove-member": {"--", "--", "+-", "++"},
	"/groups/{id}/open-site":     {"--", "--", "++", "++"},
	"/groups/{id}/edit-group":    {"--", "--", "+-", "+-"},
	"/groups/{id}/remove-group":  {"--", "--", "+-", "+-"},

	"/applications/add":                {"-", "-", "+", "+"},
	"/applications/{id}/edit-client":   operator,
	"/applications/{id}/set-logo":      operator,
	"/applications/{id}/remove-logo":   operator,
	"/applications/{id}/rotate":        operator,
	"/applications/{id}/end-old":       operator,
	"/applications/{id}/disable":       operator,
	"/applications/{id}/enable":        operator,
	"/applications/{id}/revoke-client": operator,
	"/applications/{id}/remove-client": operator,
}

// Rows that several acts share.
var (
	helpdesk = [4]string{"-.--", "++--", "++--", "+++."}
	persons  = [4]string{"-.--", "----", "++--", "+++."}
	operator = [4]string{"-", "-", "+", "+"}

	alerts = [4]string{"---", "---", "+--", "+++"}

	looksAfter = [4]string{"-", "+", "+", "+"}
)

// objects returns the subjects of a row for a role, in the order of its letters.
func (h *harness) objects(path, role string) []string {
	h.t.Helper()
	names := []string{"viewer", "helpdesk", "operator", "owner"}
	at := slices.Index(names, role)
	who := func(name string) string { return h.personID("two." + name + "@example.com") }
	switch {
	case strings.HasPrefix(path, "/persons/{id}"):
		out := []string{who("nobody"), "", who(role), ""}
		if at > 0 {
			out[1] = who(names[at-1])
		}
		if at < 3 {
			out[3] = who(names[at+1])
		}
		return out
	case strings.HasPrefix(path, "/groups/{id}"):
		return []string{h.groupID("staff"), h.groupID("gatehouse-viewer")}
	case strings.HasPrefix(path, "/events/alerts/{id}"):
		return []string{h.alert(role + "@example.com"), h.alert("two.operator@example.com"), h.alert("two.owner@example.com")}
	case strings.HasPrefix(path, "/events/{id}"):
		return []string{"1"}
	case strings.HasPrefix(path, "/jobs/{id}"):
		return []string{h.job()}
	case strings.HasPrefix(path, "/applications/{id}"):
		return []string{"wiki"}
	case strings.HasPrefix(path, "/settings/{id}"):
		return []string{"features"}
	case strings.HasPrefix(path, "/messages/texts/{id}"):
		return []string{"sign_in.title"}
	case strings.HasPrefix(path, "/messages/previews/{id}"):
		return []string{"mail.welcome"}
	case h.setupObjects(path) != nil:
		return h.setupObjects(path)
	case strings.HasPrefix(path, "/requests/{id}"):
		return []string{h.request("two.nobody@example.com"), h.request("two.owner@example.com")}
	case strings.HasPrefix(path, "/policies/{id}"):
		return []string{"office", h.policy("nights", "anybody")}
	case strings.HasPrefix(path, "/sites/{id}"):
		return []string{"wiki.example.com"}
	case strings.HasPrefix(path, "/refusals/{id}"):
		return []string{h.ref}
	}
	return []string{""}
}

// TestRights takes every screen and every act of the list: who may not gets 403 for the page and for its form, and no
// page shows the way there.
func TestRights(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	t.Run("attack 531: who may not gets 403 and is not shown the way", func(t *testing.T) {
		_, err := h.az.Clients().Add(t.Context(),
			client.Client{
				ID: "wiki", RedirectURIs: []string{"https://wiki.example.com/cb"}, Grants: []string{"authorization_code"},
				Scopes: []string{"openid"},
			}, audit.Actor{})
		h.must(err)
		rows := map[string]bool{}
		for col, role := range []string{"viewer", "helpdesk", "operator", "owner"} {
			b := h.as(role + "@example.com")
			for _, s := range h.console.screens {
				for i, kind := range objectsOf(t, rows, s.Path, col) {
					object := h.objects(s.Path, role)[i]
					if kind == '.' {
						continue
					}
					shown := b.get(at(s.Path, object))
					want(t, role, http.MethodGet, at(s.Path, object), shown, kind == '+')
					for _, a := range s.Acts {
						path := s.Path + "/" + a.Name
						may := objectsOf(t, rows, path, col)[i] == '+'
						target := at(path, object)
						asked := b.get(target)
						want(t, role, http.MethodGet, target, asked, may)
						if !may {
							want(t, role, http.MethodPost, target, b.do(http.MethodPost, target, url.Values{"csrf": {shown.csrf()}}.Encode()), false)
							if strings.Contains(shown.Body.String(), `href="`+target) {
								t.Errorf("%s is shown the way to %s", role, target)
							}
						}
					}
				}
			}
			for _, c := range []string{"nobody@example.com", ""} { // and those without a role
				b := h.browser()
				if c != "" {
					b = h.as(c)
				}
				for _, s := range h.console.screens {
					target := at(s.Path, h.objects(s.Path, role)[0])
					if a := b.do(http.MethodGet, target, ""); c != "" && a.Code != http.StatusForbidden || c == "" &&
						!strings.HasPrefix(a.Header().Get("Location"), "/sign-in") {
						t.Errorf("GET %s by %q: status %d to %q", target, c, a.Code, a.Header().Get("Location"))
					}
				}
				if role != "viewer" {
					break
				}
			}
		}
		for path := range rights {
			if !rows[path] {
				t.Errorf("the table has a row for %s, and no screen has", path)
			}
		}
	})
}

func objectsOf(t *testing.T, rows map[string]bool, path string, col int) string {
	t.Helper()
	rows[path] = true
	row, ok := rights[path]
	if !ok {
		t.Errorf("the table of rights has no row for %s", path)
		return "."
	}
	return row[col]
}

func at(path, object string) string {
	return layout.Root + strings.ReplaceAll(path, "{id}", object)
}

func want(t *testing.T, role, method, target string, a *answer, may bool) {
	t.Helper()
	if got := a.Code != http.StatusForbidden; got != may || may && a.Code != http.StatusOK {
		t.Errorf("%s: %s %s = %d, want may: %t", role, method, target, a.Code, may)
	}
}

// TestForgedForms takes every act of the list as each role that may do it: a form without a token, with one of another
// form or session, or sent by another site changes nothing.
func TestForgedForms(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	t.Run("attack 532: forged forms", func(t *testing.T) {
		_, err := h.az.Clients().Add(t.Context(),
			client.Client{
				ID: "wiki", RedirectURIs: []string{"https://wiki.example.com/cb"}, Grants: []string{"authorization_code"},
				Scopes: []string{"openid"},
			}, audit.Actor{})
		h.must(err)
		browsers := map[string]*browser{}
		for _, role := range []string{"viewer", "helpdesk", "operator", "owner"} {
			browsers[role], browsers["two."+role] = h.as(role+"@example.com"), h.as("two."+role+"@example.com")
			h.objects("/events/alerts/{id}", role)
		}
		h.setupObjects("/providers/{id}")
		h.policy("nights", "anybody")
		h.opening()
		h.objects("/requests/{id}", "viewer")
		h.job()
		h.failing("down")
		_, queued, _ := strings.Cut(h.queued(browsers["owner"], "send-now")[0], "?")
		before, forged := h.events(), map[string]bool{}
		for col, role := range []string{"viewer", "helpdesk", "operator", "owner"} {
			own, last := browsers[role], ""
			for _, s := range h.console.screens {
				for _, a := range s.Acts {
					path := s.Path + "/" + a.Name
					i := strings.IndexByte(rights[path][col], '+')
					if i < 0 {
						continue // TestRights sends it
					}
					target := at(path, h.objects(s.Path, role)[i])
					if s.Path == "/messages/queue" {
						target += "?" + queued
					}
					token := own.get(target).csrf()
					if token == "" {
						t.Errorf("%s: %s has no form", role, target)
					}
					for what, wrong := range map[string]string{
						"no token": "", "the token of another session": browsers["two."+role].get(target).csrf(),
						"the token of another form": last,
					} {
						if a := own.do(http.MethodPost, target, url.Values{"csrf": {wrong}, "username": {"x"}}.Encode()); a.Code != http.StatusForbidden {
							t.Errorf("%s: POST %s with %s = %d, want 403", role, target, what, a.Code)
						}
					}
					own.site = "cross-site"
					if a := own.do(http.MethodPost, target, url.Values{"csrf": {token}}.Encode()); a.Code != http.StatusForbidden {
						t.Errorf("%s: POST %s from another site = %d, want 403", role, target, a.Code)
					}
					own.site, last, forged[layout.Root+path] = "same-origin", token, true
				}
			}
		}
		for _, s := range h.console.screens {
			for _, a := range s.Acts {
				if path := layout.Root + s.Path + "/" + a.Name; !forged[path] {
					t.Errorf("nobody has forged the form of %s", path)
				}
			}
		}
		if after := h.events(); after != before {
			t.Errorf("forged forms have caused events: %s", after[len(before):])
		}
	})
}

// events are the types of all events, oldest first.
func (h *harness) events() string {
	h.t.Helper()
	return typesOf(h.allEvents(h.t.Context()))
}

// allEvents are all events, oldest first.
func (h *harness) allEvents(ctx context.Context) (out []audit.Event) {
	h.t.Helper()
	h.must(h.store.View(ctx, func(tx storage.Tx) error {
		found, _, err := audit.Search{Partition: audit.DefaultPartition, Following: true, Limit: 10_000}.Find(tx)
		out = nil
		for _, e := range found {
			out = append(out, e.Event)
		}
		return err
	}))
	return out
}

func typesOf(list []audit.Event) string {
	out := ""
	for _, e := range list {
		out += e.Type + "\n"
	}
	return out
}

// TestSignInOfAdministrators: the console needs the level that is configured and asks for it, and no one changes
// anything with a sign-in that is older than 15 minutes.
func TestSignInOfAdministrators(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	t.Run("a password alone does not do at level 2", func(t *testing.T) {
		b := h.as("owner@example.com")
		b.console = h.strict
		if a := b.get(layout.Root); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), `href="/account/security"`) {
			t.Errorf("GET /admin = %d, want 403 and the way to set up a second factor\n%s", a.Code, a.Body)
		}
	})
	t.Run("attack 533: an old sign-in shows pages and changes nothing", func(t *testing.T) {
		b := h.as("owner@example.com")
		h.clock.Advance(16 * time.Minute)
		path := personPath(h.personID("nobody@example.com"))
		if a := b.get(path); a.Code != http.StatusOK {
			t.Fatalf("GET %s = %d", path, a.Code)
		}
		asked := b.get(path + "/edit")
		if !strings.Contains(asked.Body.String(), `name="password"`) {
			t.Fatalf("GET edit leads to %s, want the sign-in page:\n%s", asked.url, asked.Body)
		}
		if a := b.do(http.MethodPost, path+"/edit", ""); !strings.HasPrefix(a.Header().Get("Location"), "/sign-in") {
			t.Errorf("POST edit = %d to %q, want the sign-in page", a.Code, a.Header().Get("Location"))
		}
		a := b.submit(asked, "username", "owner@example.com", "password", password)
		if a = b.get(a.Header().Get("Location")); !strings.Contains(a.Body.String(), `name="family_name"`) {
			t.Fatalf("after the sign-in: %d %s\n%s", a.Code, a.url, a.Body)
		}
		// The address that the sign-in led back to is worth no more than the sign-in, however often it is opened.
		h.clock.Advance(16 * time.Minute)
		if a := b.get(a.url); !strings.Contains(a.Body.String(), `name="password"`) {
			t.Errorf("attack: the address of an old sign-in opens the form again: %s\n%s", a.url, a.Body)
		}
	})
	t.Run("switched off it is not there", func(t *testing.T) {
		b := h.as("owner@example.com")
		if a := b.get("/account"); !strings.Contains(a.Body.String(), `href="/admin"`) {
			t.Errorf("the account page of an owner has no link to the console:\n%s", a.Body)
		}
		h.on = false
		defer func() { h.on = true }()
		for _, path := range []string{"", "/persons", "/persons/create", "/nothing"} {
			if a := b.get(layout.Root + path); a.Code != http.StatusNotFound {
				t.Errorf("GET %s = %d, want 404", layout.Root+path, a.Code)
			}
		}
		if a := b.get("/account"); strings.Contains(a.Body.String(), `href="/admin"`) {
			t.Errorf("the account page leads to a console that is off")
		}
	})
}

// TestNobodyRaisesThemselves: no way leads to more rights than one has, or leaves the console without an owner.
func TestNobodyRaisesThemselves(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	t.Run("attack 534,535: roles and the last owner", func(t *testing.T) {
		operator, owner := h.as("operator@example.com"), h.as("owner@example.com")
		refused := func(what string, a *answer) {
			t.Helper()
			if a.Code != http.StatusForbidden && a.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s: status %d, want a refusal\n%s", what, a.Code, a.Body)
			}
		}
		nobody, owners := personPath(h.personID("nobody@example.com")), groupPath(h.groupID("gatehouse-owner"))
		refused("an operator makes an owner", operator.acts(nobody+"/join", "group", "gatehouse-owner"))
		refused("an operator makes a helpdesk", operator.acts(nobody+"/join", "group", "gatehouse-helpdesk"))
		refused("an operator creates an owner",
			operator.acts("/admin/persons/create", "username", "evil@example.com", "password", password, "group", "gatehouse-owner"))
		refused("an operator invites an owner",
			operator.acts("/admin/persons/invite", "addresses", "evil@example.com", "group", "gatehouse-owner"))
		refused("an operator names a group like that of the owners",
			operator.acts(groupPath(h.groupID("staff"))+"/edit-group", "group", "gatehouse-owner"))
		refused("an operator joins themselves", operator.acts(groupPath(h.groupID("staff"))+"/add-member", "username", "operator@example.com"))
		staff := groupPath(h.groupID("staff"))
		for _, name := range []string{"owner@example.com", "two.operator@example.com"} {
			refused("an operator takes "+name+" out of a group on its page", operator.acts(staff+"/remove-member?person="+h.personID(name)))
			if shown := operator.get(staff); strings.Contains(shown.Body.String(), "remove-member?person="+h.personID(name)) {
				t.Errorf("the page of a group shows an operator how to take %s out", name)
			}
		}
		if a := operator.acts(staff + "/remove-member?person=" + h.personID("two.helpdesk@example.com")); a.Code != http.StatusOK {
			t.Errorf("an operator takes a helpdesk out of a group: %d", a.Code)
		}
		if a := operator.acts("/admin/groups/create-group", "group", "cleaners"); a.Code != http.StatusOK {
			t.Errorf("an operator makes a group: %d", a.Code)
		}
		refused("an operator puts an owner into a group on its page",
			operator.acts(groupPath(h.groupID("cleaners"))+"/add-member", "username", "owner@example.com"))
		refused("a helpdesk puts people into groups",
			h.as("helpdesk@example.com").acts("/admin/persons/invite", "addresses", "evil@example.com", "group", "staff"))
		refused("an owner takes the rights from themselves", owner.acts(owners+"/remove-member?person="+h.personID("owner@example.com")))

		h.id.Person.KeepName("two.owner@example.com")
		two := h.personID("two.owner@example.com")
		refused("the name of an owner in the Caddyfile becomes free", owner.acts(personPath(two)+"/edit", "username", "free@example.com"))
		h.refusesNamed(two, h.as("two.owner@example.com"))
		if a := owner.acts(owners + "/remove-member?person=" + two); a.Code != http.StatusOK {
			t.Fatalf("an owner takes the rights from another one: %d\n%s", a.Code, a.Body)
		}
		if a := owner.acts(personPath(two) + "/block"); a.Code != http.StatusOK {
			t.Errorf("an owner blocks somebody who was one: %d\n%s", a.Code, a.Body)
		}
		// Now owner@ is the last one.
		a := owner.submit(owner.get("/account/data/delete"), "password", password)
		if a.Code != http.StatusConflict || !strings.Contains(a.Body.String(), "last owner") {
			t.Errorf("the last owner deletes the own account: %d\n%s", a.Code, a.Body)
		}
		err := h.id.Person.RemovePerson(t.Context(), h.personID("owner@example.com"), audit.Actor{ID: "admin"},
			func(storage.Tx, *person.Details) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "last owner") {
			t.Errorf("a command removes the last owner: %v", err)
		}
	})
}

// TestPasswordsAreNotShown: the page of a form that was refused has what was entered, but no password.
func TestPasswordsAreNotShown(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	a := h.as("operator@example.com").acts("/admin/persons/create", "username", "nobody@example.com", "given_name", "Carla",
		"password", "what Carla chose 1")
	if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), `value="Carla"`) {
		t.Errorf("a taken username = %d\n%s", a.Code, a.form())
	}
	if strings.Contains(a.Body.String(), "what Carla chose 1") {
		t.Errorf("the page tells the password:\n%s", a.form())
	}
}

// TestEveryActHasItsEvent: what is done in the console is recorded with who did it.
func TestEveryActHasItsEvent(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	owner, ownerID := h.as("owner@example.com"), h.personID("owner@example.com")
	victim := personPath(h.personID("nobody@example.com"))
	h.as("nobody@example.com")
	h.link("corp", h.personID("nobody@example.com"))
	h.trusts("nobody@example.com", "one")
	h.trusts("nobody@example.com", "two")
	h.more = func(u *settings.Units) { u.Features.ExternallyDeliveredCodeStepUp.Enabled = true }
	for _, c := range []struct {
		path, event string
		fields      []string
	}{
		{victim + "/untrust?browser=one", "login.BrowserTrustEndedEvent", nil},
		{victim + "/untrust-all", "login.BrowserTrustEndedEvent", nil},
		{
			victim + "/edit", "person.PersonUpdatedEvent",
			[]string{"name", "Somebody Else", "email", "nobody@example.com", "username", "nobody@example.com"},
		},
		{victim + "/verify", "person.PersonUpdatedEvent", nil},
		{victim + "/data", "person.DataDownloadedEvent", nil},
		{victim + "/code", "person.DeliveredCodeMadeEvent", nil},
		{victim + "/unlink?provider=corp", "person.ExternalIdentityUncoupledEvent", nil},
		{victim + "/reset", "person.PasswordResetRequestedEvent", nil},
		{victim + "/link", "person.PasswordResetRequestedEvent", nil},
		{victim + "/join", "group.GroupUpdatedEvent", []string{"group", "gatehouse-viewer"}},
		{victim + "/leave?group=gatehouse-viewer", "group.GroupUpdatedEvent", nil},
		{victim + "/end", "session.SessionsEndedEvent", nil},
		{victim + "/block", "person.PersonBlockedEvent", []string{"reason", "left the company"}},
		{victim + "/unblock", "person.PersonActivatedEvent", nil},
		{"/admin/persons/create", "person.PersonCreatedEvent", []string{"username", "new@example.com", "password", password}},
		{"/admin/persons/invite", "person.PersonInvitedEvent", []string{"addresses", "a@example.com\nb@example.com"}},
		{"/admin/persons/end-many?person=" + h.personID("nobody@example.com"), "console.BulkChangeStartedEvent", nil},
		{jobPath(h.job()) + "/stop-job", "console.BulkChangeStoppedEvent", nil},
		{"/admin/persons/export", "console.PersonsExportedEvent", nil},
		{"/admin/limits/lift-limit?limit=" + h.nears("shop"), "quota.LimitLiftedEvent", nil},
		{"/admin/groups/create-group", "group.GroupCreatedEvent", []string{"group", "editors", "permissions", "wiki.edit"}},
		{
			"/admin/applications/add", "client.ClientAddedEvent",
			[]string{"template", "web", "client_id", "blog", "redirect_uris", "https://blog.example.com/cb"},
		},
		{"/admin/applications/blog/rotate", "client.ClientSecretReplacedEvent", []string{"keep", "yes"}},
		{"/admin/applications/blog/end-old", "", nil},
		{"/admin/applications/blog/disable", "client.ClientUpdatedEvent", nil},
		{"/admin/applications/blog/enable", "client.ClientUpdatedEvent", nil},
		{"/admin/applications/blog/revoke-client", "", nil},
		{"/admin/applications/blog/remove-client", "client.ClientRemovedEvent", nil},
		{victim + "/remove", "person.PersonRemovedEvent", nil},
	} {
		h.actHasEvent(owner, ownerID, c.path, c.event, c.fields...)
	}
}

// refusesNamed: the name of an owner that the configuration names does not become free by a removal. Anyone who took it
// would be an owner from the next reload on.
func (h *harness) refusesNamed(id string, own *browser) {
	h.t.Helper()
	a := own.submit(own.get("/account/data/delete"), "password", password)
	if a.Code != http.StatusConflict || !strings.Contains(a.Body.String(), "names you as an owner") {
		h.t.Errorf("an owner of the configuration deletes the own account: %d\n%s", a.Code, a.form())
	}
	err := h.id.Person.SetState(h.t.Context(), id, person.Removed, audit.Actor{ID: "admin"})
	if err == nil || !strings.Contains(err.Error(), "take the username out") {
		h.t.Errorf("a command removes an owner of the configuration: %v", err)
	}
}
