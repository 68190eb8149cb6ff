package ldapmigration_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/ldapmigration"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// imported returns a person of another system.
func imported(username string, change ...func(*ldapmigration.Person)) ldapmigration.Person {
	p := ldapmigration.Person{NewPerson: person.NewPerson{Username: username}}
	for _, f := range change {
		f(&p)
	}
	return p
}

func hash(phc string) func(*ldapmigration.Person) {
	return func(p *ldapmigration.Person) { p.PasswordHash = phc }
}

func imports(h *identitytest.Harness, update bool, list ...ldapmigration.Person) []ldapmigration.Result {
	h.T.Helper()
	out, err := h.Migration.Import(h.T.Context(), list, ldapmigration.How{Update: update}, audit.Actor{ID: "admin"})
	if err != nil {
		h.T.Fatalf("Import: %v", err)
	}
	return out
}

// TestImportedHashes: a hash of another system is replaced by one of our own at the first sign-in.
func TestImportedHashes(t *testing.T) {
	t.Parallel()
	const password = "correct horse 1"
	hashes := map[string]string{
		"ssha":    "{SSHA}CsaB3rS0+/WKJxYq0vZ36uYesYJzYWx0c2FsdA==",
		"ssha512": "{SSHA512}zcuk2jw96wCFt4HEotvlLOFwFBhd/5PRXYzU2mRoSYCbCde7DR2zXiU0WqPJEEkv0UstfZaVgh7WxD3vxUPG2nNhbHRzYWx0",
		"django":  "pbkdf2_sha256$1000$saltsalt$x74/eLoFuG1b9SwCoUbGr8vyg2cKlbteE/sweaLyNOQ=",
		"scrypt":  "$scrypt$ln=4,r=8,p=1$c2FsdHNhbHQ$9rY0Mo4idXD50gYQtCF2WoFlN9k9RzddJZhLw0adb04",
	}
	for name, phc := range hashes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := identitytest.New(t)
			got := imports(h, false, imported(name, hash(phc)))
			if got[0].Status != ldapmigration.Created {
				t.Fatalf("Import = %+v, want created", got)
			}
			if _, err := h.CheckPassword(t.Context(), "c", name, "wrong", audit.Origin{ClientIP: "203.0.113.9"}); !errors.Is(err,
				authn.ErrBadCredentials) {
				t.Errorf("CheckPassword(wrong) = %v, want %v", err, authn.ErrBadCredentials)
			}
			work := func() int64 {
				before := h.Hasher.Computed()
				h.Browser().SignIn(name, password)
				return h.Hasher.Computed() - before
			}
			if first, second := work(), work(); first != 2 || second != 1 {
				t.Errorf("the first sign-in computed %d hashes, the second %d, want 2 (the old one and ours) and 1 (ours)", first, second)
			}
			h.CheckInvariants()
		})
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	verified := true
	list := []ldapmigration.Person{
		imported("anna", func(p *ldapmigration.Person) {
			p.Password, p.Groups, p.ExternalID, p.Email, p.EmailVerified = secret.New("correct horse 1"), []string{"staff"}, "e-1",
				"anna@b.example", &verified
			p.Profile = &person.Profile{PhoneNumbers: []person.PhoneNumber{{Value: "+31 20 1", Verified: true}}, Name: person.Name{Initials: "A"}}
		}),
		imported("short", func(p *ldapmigration.Person) { p.Password = secret.New("short") }),
		imported("md5", hash("{MD5}Xr4ilOzQ4PCOq3aQ0qbuaQ==")),
		imported("two words"),
		imported("ANNA"), // twice in one file
		imported("off", func(p *ldapmigration.Person) { p.Inactive = true }),
		imported(identitytest.Demo),
		imported("two more words", func(p *ldapmigration.Person) { p.Groups = []string{"a,b"} }),
	}
	got := imports(h, false, list...)
	var status []string
	for _, r := range got {
		status = append(status, r.Status)
		if (r.Status == ldapmigration.Failed) != (r.Error != "") || r.Status == ldapmigration.Failed == (r.ID != "") {
			t.Errorf("Import = %+v: a failed one has an error, others an id", r)
		}
	}
	slices.Sort(status[0:1])
	if one, other := got[0].Status, got[4].Status; one == other || got[0].ID != got[4].ID {
		t.Errorf("the same username twice = %+v and %+v, want one of them to exist", got[0], got[4])
	}
	status[0], status[4] = "", ""
	if want := []string{"", "failed", "failed", "failed", "", "created", "exists", "failed"}; !slices.Equal(status, want) {
		t.Errorf("Import = %q, want %q", status, want)
	}
	var d person.Details
	var sub authn.Subject
	view := func(id string) {
		t.Helper()
		err := h.Store.Store.View(t.Context(), func(tx storage.Tx) (err error) {
			if d, err = h.Person.Details(tx, id); err == nil {
				sub, err = h.Person.Get(tx, id)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got[0].Status == ldapmigration.Created {
		view(got[0].ID)
		if !d.HasPassword || d.Directory.ExternalID != "e-1" || !d.Profile.EmailAddresses[0].Verified || !d.Profile.PhoneNumbers[0].Verified ||
			sub.Profile["phone_number_verified"] != "true" || !slices.Equal(sub.Groups, []string{"staff"}) {
			t.Errorf("the imported person = %+v", d)
		}
	}
	view(got[5].ID)
	if d.State != person.Inactive {
		t.Errorf("the inactive one is %s", d.State)
	}
	for _, r := range imports(h, false, list...)[4:6] {
		if r.Status != ldapmigration.Exists {
			t.Errorf("Import again = %+v, want exists", r)
		}
	}
	n := h.Events()["person.PersonCreatedEvent"]
	if n != 3 { // demo, anna, off
		t.Errorf("%d persons created, want 3", n)
	}
}

func TestImportUpdates(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	first := imported("anna", func(p *ldapmigration.Person) {
		p.Password, p.GivenName, p.Groups = secret.New("correct horse 1"), "Anna", []string{"staff"}
		p.Profile = &person.Profile{
			CustomAttributes: []person.CustomAttribute{{Name: "floor", Value: "3"}, {Name: "room", Value: "1"}},
			DateOfBirth:      "1990-01-01",
		}
	})
	id := imports(h, true, first)[0].ID
	change := imported("anna", func(p *ldapmigration.Person) {
		p.Password, p.FamilyName, p.Groups, p.ExternalID = secret.New("another horse 2"), "Berg", []string{"crew"}, "e-1"
		p.Profile = &person.Profile{CustomAttributes: []person.CustomAttribute{{Name: "floor", Value: "4"}}}
	})
	for i, want := range []string{ldapmigration.Updated, ldapmigration.Exists} {
		if got := imports(h, true, change)[0]; got.Status != want || got.ID != id {
			t.Errorf("update %d = %+v, want %s of %s", i+1, got, want, id)
		}
	}
	var d person.Details
	err := h.Store.Store.View(t.Context(), func(tx storage.Tx) (err error) {
		d, err = h.Person.Details(tx, id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if d.Profile.Name.FirstName != "Anna" || d.Profile.Name.LastName != "Berg" || d.Profile.Name.DisplayName != "Anna Berg" ||
		d.Profile.DateOfBirth != "1990-01-01" ||
		fmt.Sprint(d.Profile.CustomAttributes) != "[{floor 4} {room 1}]" || !slices.Equal(d.Groups, []string{"staff", "crew"}) ||
		d.Directory.ExternalID != "e-1" {
		t.Errorf("the updated person = %+v", d)
	}
	h.Browser().SignIn("anna", "correct horse 1") // the password is unchanged
	bare := imports(h, true, imported("bare"))[0]
	if got := imports(h, true, imported("bare",
		func(p *ldapmigration.Person) { p.Password = secret.New("correct horse 1") }))[0]; got.Status != ldapmigration.Updated ||
		got.ID != bare.ID {
		t.Errorf("a password for who has none = %+v, want updated", got)
	}
	h.Browser().SignIn("bare", "correct horse 1")
}

func TestImportStops(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	var list []ldapmigration.Person
	for i := range 100 {
		list = append(list, imported(fmt.Sprintf("p%d", i)))
	}
	h.Store.ReadOnly.Store(true)
	if _, err := h.Migration.Import(t.Context(), list, ldapmigration.How{}, audit.Actor{}); !errors.Is(err, storage.ErrFull) {
		t.Errorf("Import on a full disk = %v, want %v", err, storage.ErrFull)
	}
	h.Store.ReadOnly.Store(false)
	for _, r := range imports(h, false, list...) {
		if r.Status != ldapmigration.Created {
			t.Fatalf("Import = %+v, want created", r)
		}
	}
}

func TestProfileIsChecked(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	for name, p := range map[string]person.Profile{
		"email": {EmailAddresses: []person.EmailAddress{{Value: "a@b.example\r\nBcc: x@y.example"}}},
		"email ": {EmailAddresses: []person.EmailAddress{
			{Value: "a@b.example", Primary: true},
			{Value: "c@b.example", Primary: true},
		}},
		"email  ":            {EmailAddresses: slices.Repeat([]person.EmailAddress{{Value: "a@b.example"}}, 21)},
		"phone_numbers":      {PhoneNumbers: []person.PhoneNumber{{Value: "javascript:alert(1)"}}},
		"addresses":          {Addresses: []person.Address{{HouseNumber: -1}}},
		"addresses ":         {Addresses: []person.Address{{CountryCode: "XXX"}}},
		"addresses  ":        {Addresses: []person.Address{{StreetName: "a\nb"}}},
		"custom_attributes":  {CustomAttributes: []person.CustomAttribute{{Name: "a b", Value: "x"}}},
		"custom_attributes ": {CustomAttributes: []person.CustomAttribute{{Name: "a"}, {Name: "a"}}},
		"gender":             {Gender: "X"},
		"date_of_birth":      {DateOfBirth: "1990-02-30"},
		"locale":             {PreferredLocale: strings.Repeat("x", 100)},
		"initials":           {Name: person.Name{Initials: strings.Repeat("x", 257)}},
	} {
		_, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "x", Profile: &p}, audit.Actor{})
		if invalid := new(person.ValidationError); !errors.As(err, &invalid) || invalid.Field != strings.TrimSpace(name) {
			t.Errorf("AddPerson(%s) = %v, want that said", name, err)
		}
	}
}

// TestImportKeepsAddresses: an import without an e-mail address leaves a person's addresses alone, even if the username
// is an address.
func TestImportKeepsAddresses(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	imports(h, true, imported("anna@b.example", func(p *ldapmigration.Person) {
		p.Profile = &person.Profile{EmailAddresses: []person.EmailAddress{{Value: "other@b.example", Primary: true}, {Value: "anna@b.example"}}}
	}))
	if got := imports(h, true, imported("anna@b.example"))[0]; got.Status != ldapmigration.Exists {
		t.Errorf("Import of nothing new = %+v, want exists", got)
	}
	p, err := h.Person.Person(t.Context(), "anna@b.example")
	if err != nil || p.Email != "other@b.example" {
		t.Errorf("Person = %+v, %v, want the address of before", p, err)
	}
}

// TestImportKeepsIDs: applications recognise their users after a move, since the id stays.
func TestImportKeepsIDs(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	const id = "9b1c7a52-6f0e-4a0a-8a53-2a6f6f6c4d11"
	kept := func(id string) func(*ldapmigration.Person) { return func(p *ldapmigration.Person) { p.ID = id } }
	if got := imports(h, false, imported("ada", kept(id)))[0]; got.Status != ldapmigration.Created || got.ID != id {
		t.Fatalf("Import = %+v, want the person with the id %s", got, id)
	}
	for name, c := range map[string]struct{ id, want string }{
		"upper case":     {"9B1C7A52-6F0E-4A0A-8A53-2A6F6F6C4D12", "id is not a UUID in lower case"},
		"not a UUID":     {"auth0|507f1f77bcf86cd799439011", "id is not a UUID in lower case"},
		"somebody else":  {id, "id is that of another person, or of one who was removed"},
		"a path upwards": {"../../../etc/passwd-aaaaaaaaaaaaaaaa", "id is not a UUID in lower case"},
	} {
		if got := imports(h, false, imported("bob", kept(c.id)))[0]; got.Status != ldapmigration.Failed || got.Error != c.want {
			t.Errorf("%s: Import = %+v, want failed: %s", name, got, c.want)
		}
	}
	if got := imports(h, false, imported("ada", kept("9b1c7a52-6f0e-4a0a-8a53-2a6f6f6c4d13")))[0]; got.Status != ldapmigration.Exists ||
		got.ID != id {
		t.Errorf("Import of a username that exists = %+v, want %s as it is", got, id)
	}
}

// TestImportChecks: a dry run says what would become of each person, and writes nothing.
func TestImportChecks(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	imports(h, false, imported("ada"))
	list := []ldapmigration.Person{
		imported("ada"), imported("bob", hash("{SSHA}CsaB3rS0+/WKJxYq0vZ36uYesYJzYWx0c2FsdA==")),
		imported("cid", hash("$1$salt$hash")), imported("d e"),
	}
	for name, how := range map[string]ldapmigration.How{"leave": {Check: true}, "update": {Check: true, Update: true}} {
		out, err := h.Migration.Import(t.Context(), list, how, audit.Actor{ID: "admin"})
		if err != nil {
			t.Fatal(err)
		}
		first := ldapmigration.Exists
		if how.Update {
			first = ldapmigration.Updated
		}
		if out[0].Status != first || out[1].Status != ldapmigration.Created || out[2].Status != ldapmigration.Failed ||
			out[3].Status != ldapmigration.Failed {
			t.Errorf("%s: Import = %+v, want %s, created, failed, failed", name, out, first)
		}
	}
	for _, name := range []string{"bob", "cid"} {
		if _, err := h.Person.Person(t.Context(), name); !errors.Is(err, person.ErrNoPerson) {
			t.Errorf("after the dry run %s = %v, want %v", name, err, person.ErrNoPerson)
		}
	}
}
