package importer_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/importer"
)

// read returns a line of JSON for each person and each line that is refused.
func read(t testing.TB, format, file string) string {
	t.Helper()
	r, err := importer.New(strings.NewReader(file), format)
	if err != nil {
		return "error: " + err.Error()
	}
	var out []string
	for {
		p, line, err := r.Next()
		wrong := new(importer.LineError)
		switch {
		case errors.Is(err, io.EOF):
			return strings.Join(out, "\n")
		case errors.As(err, &wrong):
			out = append(out, err.Error())
		case err != nil:
			return strings.Join(append(out, "error: "+err.Error()), "\n")
		default:
			raw, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if line < 1 {
				t.Errorf("a person begins on line %d", line)
			}
			out = append(out, string(raw))
		}
	}
}

func TestReaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ format, file, want string }{
		"csv": {
			importer.CSV, "\ufeffUserName,Given Name,last_name,e-mail,groups,active,custom.Shoe,mobile\r\nanna,Anna,Berg,anna@b.example,staff; crew,no,38,+31 6 1\r\n\"b,en\",,,,,,,\r\n",
			`{"username":"anna","given_name":"Anna","family_name":"Berg","email":"anna@b.example","groups":["staff","crew"],"inactive":true,"profile":{"email_addresses":null,"phone_numbers":[{"primary":false,"verified":false,"tag":"mobile","value":"+31 6 1"}],"custom_attributes":[{"name":"Shoe","value":"38"}]}}` + "\n" +
				`{"username":"b,en"}`,
		},
		"csv, wrong lines": {
			importer.CSV, "username,active,housenumber,password\nanna,maybe,,\nben\ncarl,1,x,\ndora,1,1,{SSHA}abc\nemil,true,2,\n",
			"line 2: active wants true or false\nline 3: has 1 columns, the first line has 4\n" +
				`{"username":"carl","profile":{"email_addresses":null,"addresses":[{"house_number_addition":"x","primary":false}]}}` +
				"\nline 5: password holds a hash: name the column password_hash\n" +
				`{"username":"emil","profile":{"email_addresses":null,"addresses":[{"house_number":2,"primary":false}]}}`,
		},
		"csv, unknown column":   {importer.CSV, "username,shoe\n", "error: column 2 of the first line is not known; known are"},
		"csv, column twice":     {importer.CSV, "username,user_name\n", "error: the column username is there twice"},
		"csv, no username":      {importer.CSV, "email\n", "error: the first line names no column username"},
		"csv, semicolons":       {importer.CSV, "username;email\n", "error: the first line separates its columns by ;"},
		"csv, empty":            {importer.CSV, "", "error: the file is empty"},
		"csv, bare quote":       {importer.CSV, "username\na\"b\n", "error: line 2, column 2: bare \""},
		"csv, quote not closed": {importer.CSV, "username\n\"" + strings.Repeat("x", 1<<20), "error: one person takes more than 256 KiB"},
		"jsonl": {
			importer.JSONL, `{"username":"anna","password_hash":"$2a$10$x","profile":{"email_addresses":[{"value":"a@b.example","verified":true}],"addresses":[{"attentation":"desk"}]}}` + "\n\n" + `{"username":"ben","external_id":"7"}`,
			`{"username":"anna","password_hash":"$2a$10$x","profile":{"email_addresses":[{"primary":false,"verified":true,"value":"a@b.example"}],"addresses":[{"attentation":"desk","primary":false}]}}` + "\n" + `{"username":"ben","external_id":"7"}`,
		},
		"jsonl, wrong lines": {
			importer.JSONL, "{\n" + `{"username":"a","username":"b"}` + "\n" + `{"user":"a"}` + "\n[]\n" + `{"email":"x"}` + "\n" +
				`{"username":"good"}` + "\n",
			"line 1: \nline 2: \nline 3: \nline 4: \nline 5: username is missing\n" + `{"username":"good"}`,
		},
		"jsonl, a long line": {importer.JSONL, `{"username":"` + strings.Repeat("x", 1<<20), "error: one person takes more than 256 KiB"},
		"ldif": {
			importer.LDIF, `version: 1

# the people
dn: ou=people,dc=example
objectClass: organizationalUnit
ou: people

dn: uid=anna,ou=people,dc=example
objectClass: top
objectClass: inetOrgPerson
uid: anna
cn:: QW5uYSBCw6lyZw==
sn;lang-de: Berg
givenName: An
 na
mail: anna@b.example
mail: a@c.example
userPassword:: e1NTSEF9YWJj
telephoneNumber: +31 20 1
memberOf: cn=st\,aff,ou=groups,dc=example
l: Utrecht
jpegPhoto:: /9j/4AAQ
#  a comment
  that goes on

dn: uid=ben,ou=people,dc=example
objectclass: posixAccount
uid: ben
userPassword: {CLEARTEXT}in the clear
`,
			`{"username":"anna","password_hash":"{SSHA}abc","name":"Anna Bérg","given_name":"Anna","family_name":"Berg","email":"anna@b.example","groups":["st,aff"],"profile":{"email_addresses":[{"primary":true,"verified":false,"value":"anna@b.example"},{"primary":false,"verified":false,"value":"a@c.example"}],"phone_numbers":[{"primary":false,"verified":false,"tag":"work","value":"+31 20 1"}],"addresses":[{"city":"Utrecht","primary":false}]}}` + "\n" +
				`{"username":"ben","password":"in the clear"}`,
		},
		"ldif, wrong entries": {
			importer.LDIF, "dn: a\nobjectClass: person\nno colon\n\ndn: b\nobjectClass: person\nuid:: ***\n\ndn: c\nobjectClass: person\ncn: nobody\n\ndn: d\nobjectClass: person\nuid: d\nuserPassword:< file:///etc/shadow\n\ndn: e\nchangetype: delete\nobjectClass: person\nuid: e\n\ndn: f\nobjectClass: person\nuid: f\n",
			"line 1: a line is neither\nline 5: a value is not Base64\nline 9: the entry has neither uid\nline 13: a value is elsewhere\nline 18: a change of an entry\n" + `{"username":"f"}`,
		},
		"ldif, an entry without an end": {
			importer.LDIF, "dn: a\n" + strings.Repeat("cn: "+strings.Repeat("x", 1000)+"\n", 1000),
			"error: one person takes more than 256 KiB",
		},
		"ldif, a line without an end": {
			importer.LDIF, "dn: a\ncn: x\n" + strings.Repeat(" "+strings.Repeat("x", 1000)+"\n", 1000),
			"error: one person takes more than 256 KiB",
		},
		"another format": {"xls", "", "error: the format is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, want := strings.Split(read(t, c.format, c.file), "\n"), strings.Split(c.want, "\n")
			if len(got) != len(want) {
				t.Fatalf("read:\n%s\nwant:\n%s", strings.Join(got, "\n"), c.want)
			}
			for i := range want {
				ok := got[i] == want[i]
				if strings.HasPrefix(want[i], "error: ") || strings.HasPrefix(want[i], "line ") {
					ok = strings.HasPrefix(got[i], want[i])
				}
				if !ok {
					t.Errorf("person %d:\n%s\nwant:\n%s", i+1, got[i], want[i])
				}
			}
		})
	}
}

func TestFormatOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a.csv": "csv", "A.JSONL": "jsonl", "x/y.ndjson": "jsonl", "people.ldif": "ldif",
		"people": "", "-": "", "a.xlsx": "",
	} {
		if got := importer.FormatOf(name); got != want {
			t.Errorf("FormatOf(%q) = %q, want %q", name, got, want)
		}
	}
}

// FuzzReaders reads whatever is there to its end.
func FuzzReaders(f *testing.F) {
	f.Add("username,groups\nanna,\"a;b\"\n")
	f.Add(`{"username":"anna"}`)
	f.Add("dn: a\nobjectClass: person\nuid: a\n cont\n\n")
	f.Add("users:\n  ada:\n    password: x\n")
	f.Add(realm)
	f.Fuzz(func(t *testing.T, file string) {
		for _, format := range []string{
			importer.CSV, importer.JSONL, importer.LDIF, importer.Htpasswd, importer.Authelia,
			importer.Auth0, importer.Keycloak,
		} {
			read(t, format, file)
		}
	})
}
