package api_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/api"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	signin "github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const validatePath = "/api/credentials/validate"

// TestValidate has a row for every row of the document about validate.
func TestValidate(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	for name, state := range map[string]person.State{"blocked": person.Blocked, "inactive": person.Inactive, "removed": person.Removed} {
		h.add(person.NewPerson{Username: name, Password: secret.New(demoPassword)})
		h.setState(name, state)
	}
	h.add(person.NewPerson{Username: "passwordless"})
	good := h.with(demo, demoPassword)
	short, shortIV := h.encrypt(demoPassword, 8)
	long, longIV := h.encrypt(demoPassword, 16)
	without := func(member string) map[string]any {
		m := map[string]any{"username": demo, "password": good.Password, "encryption_parameter": good.IV}
		delete(m, member)
		return m
	}
	empty := func(member string) map[string]any { m := without(member); m[member] = ""; return m }
	for _, tt := range []struct {
		name         string
		body         any
		header       []string
		status, code int
	}{
		{"good", good, nil, 200, 0},
		{"an IV of 8 bytes", credentials{demo, short, shortIV}, nil, 200, 0},
		{"an IV of 16 bytes", credentials{demo, long, longIV}, nil, 200, 0},
		{"another case of the username", h.with(strings.ToUpper(demo), demoPassword), nil, 200, 0},
		{"spaces around the username", h.with(" "+demo+" ", demoPassword), nil, 200, 0},
		{"context params", h.with(demo, demoPassword), []string{"X-Service-Flow-Context-Params", "key1=value1;key2=a=b"}, 200, 0},
		{"a partition while there are none", h.with(demo, demoPassword), []string{"X-Service-Persons-Partition-Id", "west"}, 200, 0},

		{"no username", without("username"), nil, 400, 3001},
		{"no password", without("password"), nil, 400, 3001},
		{"no encryption_parameter", without("encryption_parameter"), nil, 400, 3001},
		{"empty username", empty("username"), nil, 400, 3001},
		{"empty password", empty("password"), nil, 400, 3001},
		{"empty encryption_parameter", empty("encryption_parameter"), nil, 400, 3001},
		{"nothing", "", nil, 400, 3001},
		{"no object", `[]`, nil, 400, 3001},
		{"a number", `{"username":1,"password":"x","encryption_parameter":"x"}`, nil, 400, 3001},
		{"a member twice", `{"username":"a","username":"b","password":"x","encryption_parameter":"x"}`, nil, 400, 3001},
		{"a member that is unknown", `{"username":"a","password":"x","encryption_parameter":"x","admin":true}`, nil, 400, 3001},
		{"malformed context params", good, []string{"X-Service-Flow-Context-Params", "key1"}, 400, 3001},
		{"context params with a key twice", good, []string{"X-Service-Flow-Context-Params", "a=1;a=2"}, 400, 3001},
		{"context params twice", good, []string{"X-Service-Flow-Context-Params", "a=1", "X-Service-Flow-Context-Params", "b=1"}, 400, 3001},
		{"context params with a control character", good, []string{"X-Service-Flow-Context-Params", "a=1\x01"}, 400, 3001},
		{"context params over 2 KiB", good, []string{"X-Service-Flow-Context-Params", "a=" + strings.Repeat("x", 2<<10)}, 400, 3001},

		{"the same IV again", good, nil, 400, 3002},
		{"an IV of 11 bytes", credentials{demo, good.Password, base64.StdEncoding.EncodeToString(make([]byte, 11))}, nil, 400, 3002},
		{"no IV", credentials{demo, good.Password, "===="}, nil, 400, 3002},
		{"Base64 of URLs", credentials{demo, strings.NewReplacer("+", "-", "/", "_").Replace(good.Password) + "-", good.IV}, nil, 400, 3002},
		{"Base64 with a line end", credentials{demo, good.Password[:4] + "\n" + good.Password[4:], good.IV}, nil, 400, 3002},
		{"nothing encrypted", credentials{demo, base64.StdEncoding.EncodeToString([]byte(demoPassword)), good.IV}, nil, 400, 3002},
		{"too long a password", h.with(demo, strings.Repeat("x", 5000)), nil, 400, 3002},

		{"wrong password", h.with(demo, "correct horse 2"), nil, 401, 3013},
		{"empty password inside", h.with(demo, ""), nil, 401, 3013},
		{"unknown username", h.with("nobody", demoPassword), nil, 401, 3013},
		{"id in place of the username", h.with(h.person(demo), demoPassword), nil, 401, 3013},
		{"removed", h.with("removed", demoPassword), nil, 401, 3013},
		{"without a password", h.with("passwordless", demoPassword), nil, 401, 3013},
		{"blocked", h.with("blocked", demoPassword), nil, 401, 1009},
		{"blocked, wrong password", h.with("blocked", "wrong"), nil, 401, 3013},
		{"inactive", h.with("inactive", demoPassword), nil, 403, 1039},
		{"inactive, wrong password", h.with("inactive", "wrong"), nil, 401, 3013},

		{"another media type", good, []string{"Content-Type", "text/plain"}, 415, 0},
		{"too large", strings.Repeat(" ", 20<<10), nil, 413, 0},
		{"no credentials", "", []string{"Authorization", "none"}, 401, 0},
	} {
		h.call(http.MethodPost, validatePath, tt.body, tt.header...).check(t, tt.name, tt.status, tt.code)
	}
	if a := h.call(http.MethodGet, validatePath, nil); a.status() != 405 || a.Header().Get("Allow") != "POST" {
		t.Errorf("GET = %d %q, want 405", a.status(), a.Header().Get("Allow"))
	}
	h.holdsNoSecret()
}

// TestValidateProfile holds the answer against the document: every record of the profile.
func TestValidateProfile(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	verified := true
	h.add(person.NewPerson{Username: "ann", Password: secret.New(demoPassword), EmailVerified: &verified, Profile: &person.Profile{
		EmailAddresses: []person.EmailAddress{{Primary: true, Value: "ann@example.com", Tag: "work"}, {Value: "ann@home.example"}},
		Gender:         "F", Name: person.Name{FirstName: "Ann", LastName: "Lee", Initials: "A.B."}, DateOfBirth: "1990-12-31",
		PhoneNumbers:     []person.PhoneNumber{{Primary: true, Value: "+31 20 123 4567"}},
		Addresses:        []person.Address{{HouseNumber: 7, StreetName: "Quay", City: "Delft", CountryCode: "NL", Attention: "Reception"}},
		CustomAttributes: []person.CustomAttribute{{Name: "shoe_size", Value: "39"}}, PreferredLocale: "nl-NL", ReferenceID: "ref-1",
	}})
	a := h.validate("ann", demoPassword)
	const want = `{"email_addresses":[{"primary":true,"verified":true,"tag":"work","value":"ann@example.com"},{"primary":false,"verified":false,"value":"ann@home.example"}],` +
		`"gender":"F","name":{"first_name":"Ann","last_name":"Lee","initials":"A.B.","display_name":"Ann Lee"},"date_of_birth":"1990-12-31",` +
		`"phone_numbers":[{"primary":true,"verified":false,"value":"+31 20 123 4567"}],` +
		`"addresses":[{"house_number":7,"street_name":"Quay","city":"Delft","country_code":"NL","attentation":"Reception","primary":false}],` +
		`"custom_attributes":[{"name":"shoe_size","value":"39"}],"preferred_locale":"nl-NL","reference_id":"ref-1"}`
	if got := strings.TrimSpace(a.Body.String()); a.status() != 200 || got != want {
		t.Errorf("validate = %d\n%s, want\n%s", a.status(), got, want)
	}
	h.add(person.NewPerson{Username: "bare", Password: secret.New(demoPassword)})
	if a := h.validate("bare", demoPassword); a.status() != 403 || a.Code != 3003 || string(a.Details) != `[{"any_of":["EMAIL"]}]` {
		t.Errorf("without an address = %d %s, want 403 with 3003: a Profile has one", a.status(), a.Body)
	}
}

func TestValidateEvents(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	id, before := h.person(demo), len(h.events())
	h.validate(demo, demoPassword, "X-Service-Flow-Context-Params", "flow=checkout").check(t, "good", 200, 0)
	h.validate(demo, "wrong").check(t, "wrong", 401, 3013)
	h.setState(demo, person.Blocked)
	h.validate(demo, demoPassword).check(t, "blocked", 401, 1009)
	var got []audit.Event
	for _, e := range h.events()[before:] {
		if strings.HasPrefix(e.Type, "login.") {
			got = append(got, e)
		}
	}
	if len(got) != 3 {
		t.Fatalf("%d events, want 3", len(got))
	}
	for i, want := range []audit.Event{
		{Type: "login.CredentialsValidatedEvent", Reason: "flow=checkout", Actor: "ops"},
		{Type: "login.LoginFailedEvent"},
		{Type: "login.LoginFailedEvent", Reason: "the person is blocked", Actor: "ops"},
	} {
		e := got[i]
		if e.Type != want.Type || e.Reason != want.Reason || e.Actor != want.Actor || e.PersonID != id || e.ClientID != "ops" ||
			e.ClientIP != "203.0.113.7" || e.UserAgent != "backend/1" {
			t.Errorf("event %d = %+v, want %+v", i, e, want)
		}
	}
}

// TestCredentialsSwitchedOff: the switches, each after authentication.
func TestCredentialsSwitchedOff(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	for name, change := range map[string]func(u *settings.Units, on bool){
		"credentials_api_enabled": func(u *settings.Units, on bool) { u.Features.CredentialsAPIEnabled = on },
		"login_enabled":           func(u *settings.Units, on bool) { u.Features.LoginEnabled = on },
	} {
		h.set(func(u *settings.Units) { change(u, false) })
		a := h.validate(demo, demoPassword)
		a.check(t, name+" off", 503, 1001)
		if a.Header().Get("Retry-After") == "" {
			t.Errorf("%s off: no Retry-After", name)
		}
		h.call(http.MethodPost, validatePath, "", "Authorization", "none").check(t, name+" off, without credentials", 401, 0)
		h.set(func(u *settings.Units) { change(u, true) })
		h.validate(demo, demoPassword).check(t, name+" on", 200, 0)
	}
	keyless := newPeople(t, func(_ *identity.Config, d *api.Deps) { d.CredentialsKey = secret.String{} })
	keyless.call(http.MethodPost, validatePath, h.with(demo, demoPassword)).check(t, "without a key", 503, 1001)
}

// TestCredentialsRequiredAttributes: 3003 comes of the configuration, and only after the right password.
func TestCredentialsRequiredAttributes(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	no := false
	h.add(person.NewPerson{Username: "ann", Password: secret.New(demoPassword), Email: "ann@example.com", EmailVerified: &no})
	h.add(person.NewPerson{Username: "bob", Email: "bob@example.com", Password: secret.New(demoPassword), Profile: &person.Profile{
		PhoneNumbers: []person.PhoneNumber{{Value: "+31 20 123 4567"}}, DateOfBirth: "1990-12-31",
	}})
	rule := func(names ...string) func(*settings.Units) {
		return func(u *settings.Units) {
			u.Profile.Rules = append(u.Profile.Rules, settings.AttributeRule{AnyOf: names})
		}
	}
	email := func(u *settings.Units) { u.Attributes.Verification.EmailRequired = true }
	for _, tt := range []struct {
		name, username string
		change         []func(*settings.Units)
		details        string // "" for 200
	}{
		{"verified e-mail", demo, []func(*settings.Units){email}, ""},
		{"e-mail that is not verified", "ann", []func(*settings.Units){email}, `[{"any_of":["EMAIL"]}]`},
		{"an e-mail is enough for a rule", "ann", []func(*settings.Units){rule("EMAIL")}, ""},
		{"no name", "ann", []func(*settings.Units){rule("NAME")}, `[{"any_of":["NAME"]}]`},
		{"a name", demo, []func(*settings.Units){rule("NAME")}, ""},
		{"one of several", "bob", []func(*settings.Units){rule("NAME", "PHONE")}, ""},
		{"none of several", "ann", []func(*settings.Units){rule("BIRTH_DATE", "PHONE")}, `[{"any_of":["BIRTH_DATE","PHONE"]}]`},
		{"date of birth", "bob", []func(*settings.Units){rule("BIRTH_DATE")}, ""},
		{"all that is missing", "bob", []func(*settings.Units){email, rule("NAME"), rule("PHONE")}, `[{"any_of":["EMAIL"]},{"any_of":["NAME"]}]`},
		{"a rule of nothing", "ann", []func(*settings.Units){rule()}, ""},
	} {
		h.set(func(u *settings.Units) { *u = settings.Defaults() })
		for _, change := range tt.change {
			h.set(change)
		}
		a, status, code := h.validate(tt.username, demoPassword), 200, 0
		if tt.details != "" {
			status, code = 403, 3003
		}
		a.check(t, tt.name, status, code)
		if string(a.Details) != tt.details {
			t.Errorf("%s: details %s, want %s", tt.name, a.Details, tt.details)
		}
		h.validate(tt.username, "wrong").check(t, tt.name+", wrong password", 401, 3013)
		h.clock.Advance(time.Hour)
	}
	h.set(email)
	h.setState("ann", person.Inactive)
	h.validate("ann", demoPassword).check(t, "inactive comes first", 403, 1039)
}

// TestValidateUnknownIsWrong: an unknown username and a wrong password get the same answer for the same work, and are
// throttled alike.
func TestValidateUnknownIsWrong(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	answers := map[string][]string{}
	for _, name := range []string{demo, "nobody"} {
		for range 7 {
			before := h.hasher.Computed()
			a := h.validate(name, "wrong")
			answers[name] = append(answers[name],
				strings.Join([]string{
					http.StatusText(a.status()), a.Body.String(), a.Header().Get("Retry-After"),
					string('0' + rune(h.hasher.Computed()-before)),
				}, "|"))
		}
	}
	if a, b := strings.Join(answers[demo], "\n"), strings.Join(answers["nobody"], "\n"); a != b {
		t.Errorf("wrong password:\n%s\nunknown username:\n%s\nwant the same", a, b)
	}
	if a := h.validate(demo, demoPassword); a.status() != 401 || a.Code != 1068 || a.Header().Get("Retry-After") != "30" ||
		string(a.Details) != `[{"code":1068,"error_message_key":"problem.wait"}]` {
		t.Errorf("throttled = %d %s, Retry-After %q, want 401 with 1068", a.status(), a.Body, a.Header().Get("Retry-After"))
	}
	h.clock.Advance(31 * time.Second)
	h.validate(demo, demoPassword).check(t, "after the wait", 200, 0)
	h.validate(demo, "wrong").check(t, "the count begins anew", 401, 3013)
	if a := h.validate(demo, "wrong"); string(a.Details) != `[{"code":3013,"error_message_key":"problem.mismatch"}]` {
		t.Errorf("details = %s", a.Details)
	}
}

// TestValidateSharesTheThrottle: attempts elsewhere count, in every spelling; many people behind one backend do not
// lock each other out.
func TestValidateSharesTheThrottle(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	from := audit.Origin{ClientIP: "203.0.113.7"}
	for i, name := range []string{demo, strings.ToUpper(demo), " " + demo, "Demo@Example.com", "ｄemo@example.com"} {
		if i%2 == 0 {
			h.validate(name, "wrong").check(t, name, 401, 3013)
		} else if _, err := h.persons.CheckPassword(t.Context(), "shop", name, "wrong", from); err == nil {
			t.Error("a wrong password was right")
		}
	}
	t.Run("attack 222: the password grant and the credentials API share one counter, in every spelling", func(t *testing.T) {
		h.validate(demo, demoPassword).check(t, "the sixth try", 401, 1068)
	})
	for i := range 130 {
		h.validate("somebody"+string(rune('a'+i%26))+strings.Repeat("x", i/26), "wrong").check(t, "another person", 401, 3013)
	}
}

func TestValidateRate(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	last := reply{}
	for range 401 {
		last = h.call(http.MethodPost, validatePath, "")
	}
	if last.status() != 429 || last.Header().Get("Retry-After") != "1" {
		t.Errorf("the 401st request at once = %d, Retry-After %q, want 429", last.status(), last.Header().Get("Retry-After"))
	}
	other := h.call(http.MethodPost, validatePath, "", "Authorization",
		"Basic "+base64.StdEncoding.EncodeToString([]byte("ops2:secret of ops2")))
	other.check(t, "another API client", 400, 3001)
	h.clock.Advance(time.Second)
	h.validate(demo, demoPassword).check(t, "a second later", 200, 0)
}

// TestValidateBusy: beyond what the machine bears the answer is 503, and nothing counts as a try.
func TestValidateBusy(t *testing.T) {
	t.Parallel()
	h := newPeopleCosting(t, secret.HashCost{MemoryKiB: 1 << 10, Iterations: 20, Concurrency: 1})
	bodies := make([]credentials, 200)
	for i := range bodies {
		bodies[i] = h.with("somebody"+strconv.Itoa(i), "wrong")
	}
	statuses := make([]int, len(bodies))
	var all sync.WaitGroup
	people := make(chan error, 10)
	all.Go(func() {
		for i := range cap(people) { // who come in the middle of it all, one after the other
			_, err := h.persons.CheckPassword(t.Context(), "shop", "visitor"+strconv.Itoa(i), "wrong", audit.Origin{ClientIP: "198.51.100.1"})
			people <- err
		}
	})
	for i, c := range bodies {
		all.Go(func() {
			a := h.call(http.MethodPost, validatePath, c)
			if statuses[i] = a.status(); a.status() == 503 && a.Header().Get("Retry-After") == "" {
				t.Error("503 without Retry-After")
			}
		})
	}
	all.Wait()
	n := map[int]int{}
	for _, s := range statuses {
		n[s]++
	}
	close(people)
	for err := range people {
		if !errors.Is(err, signin.ErrBadCredentials) {
			t.Errorf("a sign-in during the flood = %v, want a verdict", err)
		}
	}
	if n[401] == 0 || n[503] == 0 || n[503]+n[401] != len(bodies) {
		t.Errorf("statuses %v, want 401 and 503", n)
	}
	h.validate(demo, demoPassword).check(t, "afterwards", 200, 0)
}

func TestValidateWithoutStorage(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	body := h.with(demo, demoPassword)
	h.store.Down.Store(true)
	if a := h.call(http.MethodPost, validatePath, body); a.status() != 503 || a.Header().Get("Retry-After") == "" {
		t.Errorf("without storage = %d %s, want 503", a.status(), a.Body)
	}
}

func TestValidateKeys(t *testing.T) {
	t.Parallel()
	for _, digits := range []int{32, 48, 64} {
		key, err := api.ParseCredentialsKey(hexKey[:digits])
		if err != nil {
			t.Fatal(err)
		}
		h := newPeople(t, func(_ *identity.Config, d *api.Deps) { d.CredentialsKey = key })
		h.validate(demo, demoPassword).check(t, "a key of "+hexKey[:digits], 200, 0)
		other := newPeople(t)
		if digits != 64 {
			other.call(http.MethodPost, validatePath, h.with(demo, demoPassword)).check(t, "another key", 400, 3002)
		}
	}
	for _, bad := range []string{
		"", "00", hexKey[:40], hexKey + "00", "zz" + hexKey[2:],
		base64.StdEncoding.EncodeToString(make([]byte, 32)),
	} {
		if err := api.CheckCredentialsKey(bad); err == nil {
			t.Errorf("CheckCredentialsKey(%q) = nil, want an error", bad)
		}
	}
}

func TestCredentialsAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 259: ten thousand flips of the ciphertext and of the initialization vector, replays, unknown persons", func(t *testing.T) {
		t.Parallel()
		h := newPeople(t)
		c := h.with(demo, demoPassword)
		sealed, iv := must(base64.StdEncoding.DecodeString(c.Password)), must(base64.StdEncoding.DecodeString(c.IV))
		before, body := len(h.dump()), ""
		for i := range 10_000 {
			s, v := bytes.Clone(sealed), bytes.Clone(iv)
			if at := i % (len(s) + len(v)); at < len(s) {
				s[at] ^= byte(1 + i/(len(s)+len(v))%255)
			} else {
				v[at-len(s)] ^= byte(1 + i/(len(s)+len(v))%255)
			}
			if i%100 == 0 {
				h.clock.Advance(time.Second)
			}
			name := demo
			if i%2 == 1 {
				name = "nobody"
			}
			a := h.call(http.MethodPost, validatePath, credentials{name, base64.StdEncoding.EncodeToString(s), base64.StdEncoding.EncodeToString(v)})
			if body == "" {
				body = a.Body.String()
			}
			if a.status() != 400 || a.Code != 3002 || a.Body.String() != body {
				t.Fatalf("variant %d = %d %s, want 400 with 3002 and always the same body", i, a.status(), a.Body)
			}
		}
		if n := h.hasher.Computed(); n != 1 || len(h.dump()) != before { // the one of the person's own password
			t.Errorf("%d hashes computed and %d records written for them, want none", n-1, len(h.dump())-before)
		}
		h.call(http.MethodPost, validatePath, c).check(t, "the untouched one", 200, 0)
		computed := h.hasher.Computed()
		h.clock.Advance(24*time.Hour - time.Second)
		h.call(http.MethodPost, validatePath, c).check(t, "replayed within a day", 400, 3002)
		h.call(http.MethodPost, validatePath, credentials{"nobody", c.Password, c.IV}).check(t, "replayed for another person", 400, 3002)
		if h.hasher.Computed() != computed {
			t.Error("a replay was hashed")
		}
	})
	t.Run("attack 259: one encrypted password sixty-four times at once", func(t *testing.T) {
		t.Parallel()
		h := newPeople(t)
		c := h.with(demo, demoPassword)
		var mu sync.Mutex
		n := map[int]int{}
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				a := h.call(http.MethodPost, validatePath, c)
				mu.Lock()
				defer mu.Unlock()
				n[a.status()]++
			})
		}
		all.Wait()
		if n[200] != 1 || n[400] != 63 {
			t.Errorf("statuses %v, want one 200", n)
		}
	})
	t.Run("attack 261: the partition header missing, of another partition, twice", func(t *testing.T) {
		t.Parallel()
		const header = "X-Service-Persons-Partition-Id"
		h := newPeople(t, func(c *identity.Config, _ *api.Deps) { c.Partitions.On = true })
		h.add(person.NewPerson{Username: demo, Password: secret.New("another password"), Partition: "west"})
		for _, tt := range []struct {
			name, username, password string
			header                   []string
			status, code             int
		}{
			{"missing", demo, demoPassword, nil, 400, 3001},
			{"empty", demo, demoPassword, []string{header, ""}, 400, 3001},
			{"two values", demo, demoPassword, []string{header, "default", header, "west"}, 400, 3001},
			{"its own", demo, demoPassword, []string{header, "default"}, 200, 0},
			{"the other", demo, "another password", []string{header, "west"}, 200, 0},
			{"the password of another partition's namesake", demo, demoPassword, []string{header, "west"}, 401, 3013},
			{"one that there is not", demo, demoPassword, []string{header, "east"}, 401, 3013},
			{"no name", demo, demoPassword, []string{header, "../default"}, 401, 3013},
			{"a list", demo, demoPassword, []string{header, "default, west"}, 401, 3013},
			{"a partition in the username", `default\` + demo, demoPassword, []string{header, "west"}, 401, 3013},
		} {
			h.validate(tt.username, tt.password, tt.header...).check(t, tt.name, tt.status, tt.code)
		}
	})
	t.Run("attack 6917: a password that a program, or an administrator below owner, has set before the role", func(t *testing.T) {
		t.Parallel()
		h := newPeople(t, withRoles)
		for _, by := range []audit.Actor{{ID: "crm", BelowRoles: true}, {ID: "oscar", BelowOwner: true}, {ID: "olive"}} {
			id := h.add(person.NewPerson{Username: by.ID, Email: by.ID + "@example.com"})
			if err := h.persons.Person.SetPassword(t.Context(), id, secret.New("another password 2"), by); err != nil {
				t.Fatal(err)
			}
			h.validate(by.ID, "another password 2").check(t, "before the role", 200, 0)
			h.join(id, owners)
			if by.Untrusted() == "" {
				h.validate(by.ID, "another password 2").check(t, "set by an owner", 200, 0)
			} else {
				h.validate(by.ID, "another password 2").check(t, "set by "+by.ID, 401, 3013)
			}
		}
	})
	t.Run("peer 42: an API client that is limited to a partition reaches persons of others", func(t *testing.T) {
		t.Parallel()
		const header = "X-Service-Persons-Partition-Id"
		h := newPeople(t, func(c *identity.Config, d *api.Deps) {
			c.Partitions.On = true
			d.Gate.Partitions = func(string) []string { return []string{"west"} }
		})
		h.add(person.NewPerson{Username: demo, Password: secret.New("another password"), Partition: "west"})
		h.validate(demo, "another password").check(t, "its own partition, without the header", 200, 0)
		h.validate(demo, demoPassword).check(t, "the password of the namesake", 401, 3013)
		h.validate(demo, demoPassword, header, "default").check(t, "another partition", 403, 0)
		demoID := h.person(demo)
		for _, path := range []string{
			"/tokens", "/tokens/x", "/codes", "/invitation", "/phone-numbers/code", "/phone-numbers/verify",
			"/mobile-login", "/mobile-login/answer", "/sessions", "/assurance", "/identity-card",
		} {
			for _, method := range []string{http.MethodPost, http.MethodDelete} {
				a := h.call(method, "/api/persons/"+demoID+path, map[string]any{})
				b := h.call(method, "/api/persons/00000000-0000-4000-8000-000000000000"+path, map[string]any{})
				if a.status() != b.status() || a.status() < 400 {
					t.Errorf("%s %s = %d for a person of another partition, %d for an unknown one", method, path, a.status(), b.status())
				}
			}
		}
		h.call(http.MethodPost, "/api/persons/invitations", map[string]any{"email": "new@example.com", "partition": "default"}).check(t,
			"an invitation into another partition", 400, 0)
	})
}

// FuzzValidate: any password and initialization vector gets 400 with 3002, and never an internal error.
func FuzzValidate(f *testing.F) {
	h := newPeople(f)
	c := h.with(demo, demoPassword)
	f.Add(c.Password[:20], c.IV)
	f.Add("AAAA", "AAAAAAAAAAA=")
	f.Add(strings.Repeat("A", 6000), c.IV+"=")
	f.Fuzz(func(t *testing.T, password, iv string) {
		body, err := json.Marshal(credentials{demo, password, iv})
		if err != nil || password == "" || iv == "" || password == c.Password && iv == c.IV {
			return
		}
		h.clock.Advance(time.Second)
		if a := h.send(http.MethodPost, validatePath, string(body)); a.status() != 413 && (a.status() != 400 || a.Code != 3002) {
			t.Errorf("validate(%q, %q) = %d %s, want 400 with 3002", password, iv, a.status(), a.Body)
		}
	})
}
