package person_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestAddPerson(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	no := false
	for _, c := range []struct {
		name  string
		in    person.NewPerson
		email string
		ok    bool // verified
	}{
		{"plain", person.NewPerson{Username: "anna", Password: secret.New("sail-1-x")}, "", false},
		{"address", person.NewPerson{Username: "Bob@Example.com"}, "Bob@Example.com", true},
		{"address and e-mail", person.NewPerson{Username: "carl@example.com", Email: "other@example.com"}, "other@example.com", false},
		{"same e-mail", person.NewPerson{Username: "dora@example.com", Email: "Dora@example.com"}, "Dora@example.com", true},
		{"said not verified", person.NewPerson{Username: "emil@example.com", EmailVerified: &no}, "emil@example.com", false},
		{"other script", person.NewPerson{Username: "зоя", Name: "Зоя Ё"}, "", false},
		{"spaces around", person.NewPerson{Username: "  fritz "}, "", false},
	} {
		p, err := h.Person.AddPerson(t.Context(), c.in, identitytest.Admin)
		if err != nil {
			t.Errorf("AddPerson(%s) = %v", c.name, err)
			continue
		}
		if p.State != person.Active || p.Email != c.email || p.EmailVerified != c.ok || len(p.ID) != 36 ||
			p.Username != strings.TrimSpace(c.in.Username) {
			t.Errorf("AddPerson(%s) = %+v, want e-mail %q verified %t", c.name, p, c.email, c.ok)
		}
		if again, err := h.Person.Person(t.Context(), p.ID); err != nil || again.Username != p.Username {
			t.Errorf("Person(%s) = %+v, %v", p.ID, again, err)
		}
	}
	if got := h.Events()["person.PersonCreatedEvent"]; got != 8 {
		t.Errorf("%d events Person Created, want 8", got)
	}
}

func TestUsernamesAreUnique(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "Ren\u00e9"}, identitytest.Admin); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"Ren\u00e9", "ren\u00e9", "REN\u00c9", "Rene\u0301", " rene\u0301 ", "\uff52en\u00e9",
		strings.ToUpper(identitytest.Demo),
	} {
		if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: name}, identitytest.Admin); !errors.Is(err,
			person.ErrUsernameTaken) {
			t.Errorf("AddPerson(%q) = %v, want ErrUsernameTaken", name, err)
		}
		if _, err := h.Person.Person(t.Context(), name); err != nil {
			t.Errorf("Person(%q) = %v, want the one person", name, err)
		}
	}
	if got := h.Events()["person.PersonCreatedEvent"]; got != 2 {
		t.Errorf("%d events Person Created, want 2: refused ones have none", got)
	}
}

func TestAddPersonRefuses(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	good := person.NewPerson{Username: "anna"}
	custom := func(name string) *person.Profile {
		return &person.Profile{CustomAttributes: []person.CustomAttribute{{Name: name, Value: "x"}}}
	}
	eva := person.NewPerson{Username: "eva", Profile: custom(strings.Repeat("é", 128))}
	if _, err := h.Person.AddPerson(t.Context(), eva, identitytest.Admin); err != nil {
		t.Errorf("AddPerson with a custom attribute of 128 characters = %v", err)
	}
	for name, c := range map[string]struct {
		change func(*person.NewPerson)
		field  string
	}{
		"empty":             {func(p *person.NewPerson) { p.Username = " " }, "username"},
		"space":             {func(p *person.NewPerson) { p.Username = "an na" }, "username"},
		"control":           {func(p *person.NewPerson) { p.Username = "an\x00na" }, "username"},
		"line":              {func(p *person.NewPerson) { p.Username = "an\nna" }, "username"},
		"not UTF-8":         {func(p *person.NewPerson) { p.Username = "an\xff" }, "username"},
		"long":              {func(p *person.NewPerson) { p.Username = strings.Repeat("a", 257) }, "username"},
		"long in bytes":     {func(p *person.NewPerson) { p.Username = strings.Repeat("𐐨", 256) }, "username"},
		"id":                {func(p *person.NewPerson) { p.Username = "0b5e0d26-9d4c-4f0e-9a63-5d3a5a7c1111" }, "username"},
		"e-mail":            {func(p *person.NewPerson) { p.Email = "a@b,c@d" }, "email"},
		"e-mail name":       {func(p *person.NewPerson) { p.Email = "Anna <anna@example.com>" }, "email"},
		"name control":      {func(p *person.NewPerson) { p.Name = "a\r\nb" }, "name"},
		"name long":         {func(p *person.NewPerson) { p.GivenName = strings.Repeat("a", 257) }, "given_name"},
		"locale":            {func(p *person.NewPerson) { p.Locale = "no such" }, "locale"},
		"group empty":       {func(p *person.NewPerson) { p.Groups = []string{""} }, "groups"},
		"group control":     {func(p *person.NewPerson) { p.Groups = []string{"a\nb"} }, "groups"},
		"groups":            {func(p *person.NewPerson) { p.Groups = slices.Repeat([]string{"a"}, 257) }, "groups"},
		"custom name long":  {func(p *person.NewPerson) { p.Profile = custom(strings.Repeat("é", 129)) }, "custom_attributes"},
		"custom name space": {func(p *person.NewPerson) { p.Profile = custom("a b") }, "custom_attributes"},
		"hash":              {func(p *person.NewPerson) { p.PasswordHash = "plain" }, "password_hash"},
		"hash and password": {func(p *person.NewPerson) { p.Password, p.PasswordHash = secret.New("sail-1-x"), "x" }, "password"},
	} {
		p := good
		c.change(&p)
		_, err := h.Person.AddPerson(t.Context(), p, identitytest.Admin)
		if v := new(person.ValidationError); !errors.As(err, &v) || v.Field != c.field {
			t.Errorf("AddPerson with bad %s = %v, want a ValidationError of %s", name, err, c.field)
		}
	}
	t.Run("attack 226: passwords have their bounds on every way in", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			name, password string
			ok             bool
		}{
			{"min-1", "1234567", false},
			{"min", "sail-1-x", true},
			{"max", strings.Repeat("four", 64), true},
			{"max+1", strings.Repeat("four", 64) + "s", false},
			{"max of wide characters", strings.Repeat("語学教室", 64), true},
			{"NUL", "1234\x005678", false},
			{"not UTF-8", "1234567\xff8", false},
			{"spaces around", "  345678", true},
			{"1 MB", strings.Repeat("x", 1<<20), false},
			{"7 characters in 14 bytes", strings.Repeat("é", 7), false},
			{"7 characters as NFD", strings.Repeat("e\u0301", 7), false},
		} {
			before := h.Hasher.Computed()
			_, err := h.Person.AddPerson(t.Context(),
				person.NewPerson{Username: "p" + fmt.Sprint(len(c.name)) + strings.ReplaceAll(c.name, " ", "-"), Password: secret.New(c.password)},
				identitytest.Admin)
			set := h.Person.SetPassword(t.Context(), identitytest.Demo, secret.New(c.password), identitytest.Admin)
			if (err == nil) != c.ok || (set == nil) != c.ok {
				t.Errorf("password %s: AddPerson = %v, SetPassword = %v, want ok %t", c.name, err, set, c.ok)
			}
			if !c.ok && h.Hasher.Computed() != before {
				t.Errorf("password %s was hashed before it was refused", c.name)
			}
		}
	})
}

func TestConfiguredPersons(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	before := h.Hasher.Computed()
	h.Config.Persons[0].Password, h.Config.Persons[0].Name = secret.New("another password"), "Another"
	h.Start()
	p, err := h.Person.Person(t.Context(), identitytest.Demo)
	if err != nil || p.Name != "Demo Person" || h.Hasher.Computed() != before+1 { // the other password is compared
		t.Errorf("Person after a restart = %+v, %v, %d hashes computed, want it untouched", p, err, h.Hasher.Computed()-before)
	}
	h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
}

func TestListPersons(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	for _, n := range []string{"Zoe", "anna", "Bert"} {
		if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: n}, identitytest.Admin); err != nil {
			t.Fatal(err)
		}
	}
	names := func(after string, limit int) (out []string) {
		list, err := h.Person.ListPersons(t.Context(), after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			out = append(out, p.Username)
		}
		return out
	}
	if got, want := names("", 0), []string{"anna", "Bert", identitytest.Demo, "Zoe"}; !slices.Equal(got, want) {
		t.Errorf("ListPersons = %v, want %v", got, want)
	}
	if got, want := names("ANNA", 2), []string{"Bert", identitytest.Demo}; !slices.Equal(got, want) {
		t.Errorf("ListPersons(anna, 2) = %v, want %v", got, want)
	}
}

func TestSubject(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	p, err := h.Person.Person(t.Context(), identitytest.Demo)
	if err != nil {
		t.Fatal(err)
	}
	get := func(id string) (sub authn.Subject, err error) {
		err = h.Store.View(t.Context(), func(tx storage.Tx) error {
			sub, err = h.Person.Get(tx, id)
			return err
		})
		return sub, err
	}
	sub, err := get(p.ID)
	if err != nil || !sub.Active || sub.Username != identitytest.Demo || !slices.Equal(sub.Groups, []string{"staff", "editors"}) {
		t.Errorf("Get = %+v, %v", sub, err)
	}
	for claim, want := range map[string]string{
		"name": "Demo Person", "email": identitytest.Demo, "email_verified": "true",
		"preferred_username": identitytest.Demo, "updated_at": "1795262400", "locale": "",
	} {
		if got := sub.Profile[claim]; got != want {
			t.Errorf("claim %s = %q, want %q", claim, got, want)
		}
	}
	if _, err := get("0b5e0d26-9d4c-4f0e-9a63-5d3a5a7c1111"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Get(nobody) = %v, want ErrNotFound", err)
	}
	if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, identitytest.Admin); err != nil {
		t.Fatal(err)
	}
	blocked, err := get(p.ID)
	if err != nil || blocked.Active || blocked.Epoch <= sub.Epoch {
		t.Errorf("Get(blocked) = %+v, %v, want inactive and a later epoch", blocked, err)
	}
	if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, identitytest.Admin); err != nil ||
		h.Events()["person.PersonBlockedEvent"] != 1 {
		t.Errorf("blocking twice = %v, %d events, want one", err, h.Events()["person.PersonBlockedEvent"])
	}
	for _, err := range []error{
		h.Person.SetState(t.Context(), "nobody", person.Blocked, identitytest.Admin),
		h.Person.SetPassword(t.Context(), "nobody", secret.New("sail-1-x"), identitytest.Admin),
		h.Person.EndSessions(t.Context(), "no body", identitytest.Admin),
	} {
		if !errors.Is(err, person.ErrNoPerson) {
			t.Errorf("change of nobody = %v, want ErrNoPerson", err)
		}
	}
	if v := new(person.ValidationError); !errors.As(h.Person.SetState(t.Context(), identitytest.Demo, "ASLEEP", identitytest.Admin), &v) {
		t.Error("SetState(ASLEEP) succeeded, want a ValidationError")
	}
}

func TestImportedHash(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	bc, err := bcrypt.GenerateFromPassword([]byte("from elsewhere"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "anna", PasswordHash: string(bc)},
		identitytest.Admin); err != nil {
		t.Fatal(err)
	}
	before := h.Hasher.Computed()
	h.Browser().SignIn("anna", "from elsewhere")
	h.Browser().SignIn("anna", "from elsewhere")
	// The first sign-in verifies bcrypt and hashes the password again, the second one verifies Argon2id.
	if got := h.Hasher.Computed() - before; got != 3 {
		t.Errorf("%d hashes computed, want 3", got)
	}
}

func TestRemovedPerson(t *testing.T) {
	t.Parallel()
	t.Run("attack 269: nothing of a removed person opens for who takes the name", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		old, err := h.Person.Person(t.Context(), identitytest.Demo)
		if err != nil {
			t.Fatal(err)
		}
		b := h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Removed, identitytest.Admin); err != nil {
			t.Fatal(err)
		}
		next, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: identitytest.Demo, Password: secret.New("another one")},
			identitytest.Admin)
		if err != nil || next.ID == old.ID {
			t.Fatalf("AddPerson = %+v, %v, want a new id", next, err)
		}
		if b.IsSignedIn() {
			t.Error("the session of the removed person is alive")
		}
		if a := b.Try(identitytest.Demo, identitytest.DemoPassword); a.Code == 303 {
			t.Error("the password of the removed person signs in")
		}
		gone, err := h.Person.Person(t.Context(), old.ID)
		if err != nil || gone.State != person.Removed || gone.Email != "" || gone.Name != "" {
			t.Errorf("Person(removed) = %+v, %v, want no profile", gone, err)
		}
		if err := h.Person.SetPassword(t.Context(), old.ID, secret.New("sail-1-x"), identitytest.Admin); !errors.Is(err, person.ErrNoPerson) {
			t.Errorf("SetPassword(removed) = %v, want ErrNoPerson", err)
		}
		h.CheckInvariants()
	})
}
