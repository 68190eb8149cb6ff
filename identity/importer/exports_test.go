package importer_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/importer"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// people reads all persons of a reader, who must all be readable.
func people(t testing.TB, r importer.Reader) (list []importer.Person) {
	t.Helper()
	for {
		p, line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("line %d: %v", line, err)
		}
		list = append(list, p)
	}
}

// realm is the output of `kc.sh export --users same_file`, shortened. The passwords are "password": the hash of ada is
// Python's hashlib's, that of bob the argon2 command's.
const realm = `{
  "id" : "3f1c2b9e-3f0a-4f35-9a6d-8d0a3f1d9c01",
  "realm" : "demo",
  "roles" : { "realm" : [ { "name" : "users" } ] },
  "users" : [ {
    "id" : "9b1c7a52-6f0e-4a0a-8a53-2a6f6f6c4d11",
    "username" : "ada",
    "firstName" : "Ada",
    "lastName" : "Lovelace",
    "email" : "ada@example.com",
    "emailVerified" : true,
    "createdTimestamp" : 1700000000000,
    "enabled" : true,
    "totp" : true,
    "attributes" : { "locale" : [ "en" ], "phoneNumber" : [ "+31612345678" ], "shoe" : [ "38", "39" ], "empty" : [ "" ] },
    "credentials" : [ {
      "type" : "password",
      "secretData" : "{\"value\":\"FLAKrylANDgDgtPBQiUvp4/v52EpM6tnb3b2ZEP26EQ=\",\"salt\":\"c2FsdHNhbHRzYWx0c2FsdA==\",\"additionalParameters\":{}}",
      "credentialData" : "{\"hashIterations\":27500,\"algorithm\":\"pbkdf2-sha256\",\"additionalParameters\":{}}"
    }, {
      "type" : "otp",
      "secretData" : "{\"value\":\"planted-otp-seed\"}",
      "credentialData" : "{\"subType\":\"totp\",\"digits\":6}"
    } ],
    "realmRoles" : [ "default-roles-demo", "auditor" ],
    "federatedIdentities" : [ { "identityProvider" : "github", "userId" : "1", "userName" : "ada" } ],
    "requiredActions" : [ "UPDATE_PASSWORD" ],
    "groups" : [ "/staff/it" ]
  }, {
    "id" : "6c84fb90-12c4-11e1-840d-7b25c5ee775a",
    "username" : "bob",
    "enabled" : false,
    "credentials" : [ {
      "type" : "password",
      "secretData" : "{\"value\":\"i6P6cCvSwI/Gp4MO3l8wvjoXUe1JLzHNfXagpIByW1o=\",\"salt\":\"c2FsdHNhbHRzYWx0c2FsdA==\",\"additionalParameters\":{}}",
      "credentialData" : "{\"hashIterations\":2,\"algorithm\":\"argon2\",\"additionalParameters\":{\"hashLength\":[\"32\"],\"memory\":[\"64\"],\"type\":[\"id\"],\"version\":[\"1.3\"],\"parallelism\":[\"1\"]}}"
    } ]
  }, {
    "id" : "6c84fb90-12c4-11e1-840d-7b25c5ee775b",
    "username" : "service-account-robot",
    "serviceAccountClientId" : "robot"
  } ],
  "clients" : [ ]
}
`

func TestKeycloakExport(t *testing.T) {
	t.Parallel()
	r, err := importer.New(strings.NewReader(realm), importer.Keycloak)
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	var list []importer.Person
	for {
		p, line, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		lines, list = append(lines, line), append(list, p)
	}
	if len(list) != 2 || !slices.Equal(lines, []int{5, 29}) || r.(importer.Skipper).Skipped() != 1 {
		t.Fatalf("%d persons on the lines %d, %d skipped, want 2 on 5 and 29, 1 skipped", len(list), lines, r.(importer.Skipper).Skipped())
	}
	ada, bob := list[0], list[1]
	if ada.ID != "9b1c7a52-6f0e-4a0a-8a53-2a6f6f6c4d11" || ada.Username != "ada" || ada.Name != "" || ada.GivenName != "Ada" ||
		ada.FamilyName != "Lovelace" ||
		ada.Email != "ada@example.com" || !*ada.EmailVerified || ada.Locale != "en" ||
		!slices.Equal(ada.Groups, []string{"staff/it"}) || ada.Inactive {
		t.Errorf("ada is %+v", ada)
	}
	if len(ada.Profile.CustomAttributes) != 1 || ada.Profile.CustomAttributes[0].Value != "38" || len(ada.Profile.PhoneNumbers) != 1 {
		t.Errorf("ada's profile is %+v", ada.Profile)
	}
	notes := strings.Join(ada.Notes, "\n")
	for _, want := range []string{"several values", "authenticator app", "github", "roles", "UPDATE_PASSWORD"} {
		if !strings.Contains(notes, want) {
			t.Errorf("ada's notes do not mention %s:\n%s", want, notes)
		}
	}
	if strings.Contains(notes, "planted") {
		t.Errorf("a note has the seed of the authenticator app:\n%s", notes)
	}
	if !bob.Inactive || len(bob.Notes) != 0 {
		t.Errorf("bob is %+v", bob)
	}
	h := secret.NewHasher(secret.HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 2})
	for _, p := range list {
		if ok, _, err := h.Verify(t.Context(), p.PasswordHash, "password"); !ok || err != nil {
			t.Errorf("%s signs in with the password: %t, %v (%s)", p.Username, ok, err, p.PasswordHash)
		}
	}
}

func TestFilesThatAreNoRealm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, want string }{
		"empty":         {"", "is not a realm"},
		"no JSON":       {"users", "is not JSON"},
		"another file":  {`{"resourceType":"User"}`, "is not a realm"},
		"several":       {`[{"users":[]}]`, "several realms"},
		"users by name": {`{"users":{"ada":{}}}`, "is not a realm"},
	} {
		if _, err := importer.New(strings.NewReader(c.file), importer.Keycloak); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: New = %v, want one that has %q", name, err, c.want)
		}
	}
	r, err := importer.New(strings.NewReader("{\"users\":[\n{\"username\":7},\n{\"username\":\"ann\",\"id\":\"7\"},\n{\"username\":"),
		importer.Keycloak)
	if err != nil {
		t.Fatal(err)
	}
	if _, line, err := r.Next(); !errors.As(err, new(*importer.LineError)) || line != 2 {
		t.Errorf("a number as a username = line %d, %v, want an error of line 2", line, err)
	}
	if p, line, err := r.Next(); p.Username != "ann" || p.ID != "" || len(p.Notes) != 1 || line != 3 || err != nil {
		t.Errorf("the next user = %+v on line %d, %v, want ann without her id", p, line, err)
	}
	if _, _, err := r.Next(); err == nil || errors.Is(err, io.EOF) || errors.As(err, new(*importer.LineError)) {
		t.Errorf("a file without its end = %v, want an error that ends the import", err)
	}
}

func TestAutheliaUsers(t *testing.T) {
	t.Parallel()
	r, err := importer.New(strings.NewReader(`---
users:
  john:
    disabled: false
    displayname: 'John Doe'
    password: '$argon2id$v=19$m=65536,t=3,p=2$BpLnfgDsc2WD8F2q$o/vzA4myCqZZ36bUGsDY//8mKUYNZZaR0t4MFFSs+iM'
    email: 'john.doe@example.com'
    groups:
      - 'admins'
      - 'dev'
    given_name: 'John'
    gender: 'male'
    address:
      street_address: '1 Main'
      locality: 'Utrecht'
    extra:
      example: true
    picture: 'https://example.com/j.png'
  harry:
    disabled: true
    password: '$6$rounds=50000$BpLnfgDsc2WD8F2q$Xxq38'
  bad:
    password: 'in the clear'
`), importer.Authelia)
	if err != nil {
		t.Fatal(err)
	}
	john, line, err := r.Next()
	if err != nil || line != 3 || john.Username != "john" || john.Name != "John Doe" || john.Email != "john.doe@example.com" ||
		john.EmailVerified != nil ||
		!slices.Equal(john.Groups, []string{"admins", "dev"}) || john.Profile.Gender != "M" || john.Profile.Addresses[0].City != "Utrecht" ||
		john.Profile.CustomAttributes[0].Value != "true" || secret.CheckImported(john.PasswordHash) != nil {
		t.Errorf("john on line %d, %v is %+v, %+v", line, err, john, john.Profile)
	}
	if !slices.Equal(john.Notes, []string{"picture does not come"}) {
		t.Errorf("john's notes are %q", john.Notes)
	}
	if harry, _, err := r.Next(); err != nil || !harry.Inactive {
		t.Errorf("harry is %+v, %v, want him inactive", harry, err)
	}
	if _, line, err := r.Next(); !errors.As(err, new(*importer.LineError)) || line != 22 || strings.Contains(err.Error(), "clear") {
		t.Errorf("a plain password = line %d, %v, want an error of line 22 without it", line, err)
	}
	if _, err := importer.New(strings.NewReader("access_control: {}\n"), importer.Authelia); err == nil ||
		!strings.Contains(err.Error(), "users_database.yml") {
		t.Errorf("another file of Authelia's = %v, want an error that names the right one", err)
	}
}

func TestHtpasswd(t *testing.T) {
	t.Parallel()
	got := read(t, importer.Htpasswd,
		"# people\n\nada:$apr1$saltsalt$bBFZJOdqmeHkX5sAJRgXJ0\nbob:$2y$05$abc:1000:1000::/home/bob\ncid:rqXexS6ZhobKA\n:x\nno colon\n")
	want := `{"username":"ada","password_hash":"$apr1$saltsalt$bBFZJOdqmeHkX5sAJRgXJ0"}
{"username":"bob","password_hash":"$2y$05$abc"}
line 5: the hash is of crypt(3) with DES
line 6: is not a name and a hash
line 7: is not a name and a hash`
	lines, wants := strings.Split(got, "\n"), strings.Split(want, "\n")
	if len(lines) != len(wants) {
		t.Fatalf("read:\n%s\nwant:\n%s", got, want)
	}
	for i := range wants {
		if !strings.HasPrefix(lines[i], wants[i]) {
			t.Errorf("read %s, want %s", lines[i], wants[i])
		}
	}
}

// text is a file of a text.
func text(of string) importer.File {
	return func() (io.Reader, error) { return strings.NewReader(of), nil }
}

func TestAuth0Export(t *testing.T) {
	t.Parallel()
	hashes := text(`{"_id":{"$oid":"60425dc43519d90068f82973"},"email_verified":false,"email":"Ada@example.com","passwordHash":"$2b$10$Z6hUTEEeoJXN5/AmSm/4.eZ75RYgFVriQM9LPhNEC7kbAbS/VAaJ2","password_set_date":{"$date":"2021-03-05T16:35:16.775Z"},"tenant":"dev","connection":"Username-Password-Authentication","_tmp_is_unique":true}
{"email":"eve@example.com","passwordHash":"$2b$10$Z6hUTEEeoJXN5/AmSm/4.eZ75RYgFVriQM9LPhNEC7kbAbS/VAaJ3"}` + "\n")
	r, err := importer.Open(importer.Auth0, text(`{"user_id":"auth0|60425dc43519d90068f82973","email":"ada@example.com","email_verified":true,"name":"ada@example.com","given_name":"Ada","user_metadata":{"shoe":"38","likes":["a"]},"multifactor":["guardian"],"identities":[{"connection":"Username-Password-Authentication","provider":"auth0","isSocial":false}]}

{"user_id":"google-oauth2|1","email":"bob@example.com","blocked":true,"identities":[{"connection":"google-oauth2","provider":"google-oauth2","isSocial":true}]}
{"user_id":"google-oauth2|2","username":"ada.too","email":"ada@example.com"}
{"user_id":"samlp|corp|3","username":"eve.too","email":"eve@example.com"}
{"user_id":"auth0|4","email":"eve@example.com"}
{"user_id":"auth0|5","username":"ada.three","email":"ada@example.com"}
`), hashes)
	if err != nil {
		t.Fatal(err)
	}
	list := people(t, r)
	if len(list) != 6 {
		t.Fatalf("%d persons, want 6", len(list))
	}
	for i, has := range []bool{false, false, true, false} {
		if p := list[2+i]; (p.PasswordHash != "") != has {
			t.Errorf("attack: %s, who has the address of another user, comes with a password: %t, want %t", p.ExternalID, !has, has)
		}
	}
	ada, bob := list[0], list[1]
	if ada.Username != "ada@example.com" || ada.Name != "" || ada.ExternalID != "auth0|60425dc43519d90068f82973" || !*ada.EmailVerified ||
		ada.Profile.CustomAttributes[0].Value != "38" ||
		!strings.HasPrefix(ada.PasswordHash, "$2b$10$") || len(ada.Notes) != 2 {
		t.Errorf("ada is %+v", ada)
	}
	if !bob.Inactive || bob.PasswordHash != "" || len(bob.Notes) != 2 {
		t.Errorf("bob is %+v", bob)
	}
}

// TestLDIFGroups: groups that name their members come with the members.
func TestLDIFGroups(t *testing.T) {
	t.Parallel()
	const file = `dn: uid=anna,ou=people,dc=example
objectClass: inetOrgPerson
uid: anna
memberOf: cn=staff,dc=example

dn: cn=staff,ou=groups,dc=example
objectClass: groupOfNames
cn: staff
member: UID=Anna, ou=people,dc=example

dn: cn=crew,ou=groups,dc=example
objectClass: posixGroup
cn: crew
memberUid: anna
memberUid: nobody
`
	r, err := importer.Open(importer.LDIF, text(file))
	if err != nil {
		t.Fatal(err)
	}
	list := people(t, r)
	if len(list) != 1 || !slices.Equal(list[0].Groups, []string{"staff", "crew"}) {
		t.Errorf("read %+v, want anna in staff and crew", list)
	}
}

// TestLDIFOfDisabledAccounts: an account that is disabled or has ended is inactive here, however the directory says so.
func TestLDIFOfDisabledAccounts(t *testing.T) {
	t.Parallel()
	for attribute, want := range map[string]string{
		"uid: x":                              "active",
		"userAccountControl: 512":             "active",
		"userAccountControl: 514":             "inactive",
		"userAccountControl: 66050":           "inactive",
		"sambaAcctFlags: [UX    ]":            "active",
		"sambaAcctFlags: [DUX   ]":            "inactive",
		"shadowExpire: -1":                    "active",
		"shadowExpire: 0":                     "inactive",
		"shadowExpire: 15000":                 "inactive",
		"shadowExpire: 2000000":               "active, the end of the account on 7445-10-25 does not come",
		"accountExpires: 0":                   "active",
		"accountExpires: 9223372036854775807": "active",
		"accountExpires: 132223104000000000":  "inactive",
		"accountExpires: 2650467743990000000": "active, the end of the account on 9999-12-31 does not come",
		"nsAccountLock: false":                "active",
		"shadowExpire: 2000000\naccountExpires: 132223104000000000": "inactive",
		"nsAccountLock: true":                 "inactive",
		"loginDisabled: TRUE":                 "inactive",
		"pwdAccountLockedTime: 000001010000Z": "inactive",
	} {
		r, err := importer.Open(importer.LDIF, text("dn: cn=x\nobjectClass: person\nuid: x\n"+attribute+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		p := people(t, r)[0]
		got := "active"
		if p.Inactive {
			got = "inactive"
		}
		if got = strings.Join(append([]string{got}, p.Notes...), ", "); got != want {
			t.Errorf("%s: %s, want %s", attribute, got, want)
		}
	}
}

// TestMembersOfAnotherType: a user with a member of another type is refused, and the member is named without its value.
func TestMembersOfAnotherType(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ format, file, want string }{
		"keycloak": {importer.Keycloak, `{"realm":"x","users":[{"username":"zed","enabled":"planted"}]}`, "enabled must not be of the type string"},
		"auth0":    {importer.Auth0, `{"email":"a@example.com","blocked":"planted"}`, "blocked must not be of the type string"},
		"a number": {importer.Auth0, `{"email":31612345678}`, "email must not be of the type number"},
		"authelia": {importer.Authelia, "users:\n  john:\n    displayname: John\n    groups: planted\n", "line 4 must not be of the type str but []string"},
	} {
		r, err := importer.New(strings.NewReader(c.file), c.format)
		if err == nil {
			_, _, err = r.Next()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "planted") ||
			strings.Contains(err.Error(), "3161") {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}
