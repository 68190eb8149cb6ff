package ldap_test

import "fmt"

// Hostile returns 200 usernames that mean more than a name to who pastes them into a filter or a DN.
func Hostile() (out []string) {
	out = []string{
		"*", "a*", "*e", "al*ce", "alice*", "alice)(uid=*", "alice)(|(uid=*", "*)(uid=*))(|(uid=*", "*)(&", "*))%00", "alice)(!(uid=bob)",
		"alice)(&)", "(|(uid=alice))",
		"alice))(|(uid=*)", "x)(|(cn=Alice Example)", "x)(mail=alice@example.com", "x))(|(mail=alice@example.com)", `\2a`, `\2A`, `a\2a`,
		`\61lice`, `\61\6c\69\63\65`,
		`alice\29\28uid=\2a`, "alice,ou=people,dc=example,dc=com", "alice,ou=people", "alice+uid=bob", "bob+uid=alice", "alice,",
		"alice=", "=alice", "uid=alice",
		"uid=alice,ou=people,dc=example,dc=com", "#616c696365", `"alice"`, "alice;", ";alice", "<alice>", `alice\`, `\alice`, `alice\,`,
		"alice/", "/alice", "alice#", "#alice",
		"alice\u0000", "ali\u0000ce", "alice\r", "ali\nce", "&alice", "|alice", "!alice", "alice&", "(alice)", "(alice", "alice)",
		"~=alice", ">=a", "<=z", ":=alice",
		"cn:caseExactMatch:=Alice Example", "uid:dn:=alice", "alice:", "%s", "%d", "%u", "%25", "alice%00", "{alice}", "$alice", "${alice}",
		"`alice`", "alice'--", "alice||",
		"ou=people", "dc=example", "cn=reader,dc=example,dc=com", "reader,dc=example,dc=com", "mail=alice@example.com",
		"alice@example.com", "entryUUID=*",
	}
	for i := range 256 - 128 {
		if c := i + 1; c < ' ' || c > '~' || !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z') {
			out = append(out, fmt.Sprintf("alice%c(uid=*)", rune(c)), fmt.Sprintf("*%calice", rune(c)))
		}
	}
	return out[:200]
}
