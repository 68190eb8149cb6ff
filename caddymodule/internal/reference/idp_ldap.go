package reference

import "slices"

// LDAP is a directory.
var LDAP = Block{
	Head: "idp <id> ldap", Open: "idp staff ldap",
	Text:  "Sign-in by a directory: the username and password that people type on the sign-in page are tried at an LDAP server. [ldap.md](ldap.md) is a guide.",
	Needs: "url ldaps://ldap.example.com\nbind cn=reader,dc=example,dc=com {env.LDAP_PASSWORD}\nbase ou=people,dc=example,dc=com",
	Options: slices.Concat([]Option{
		{
			Word: "url", Arguments: "<address>…", Default: "required", Example: "url ldaps://dc1.example.com ldaps://dc2.example.com",
			Instead: "bind cn=reader,dc=example,dc=com {env.LDAP_PASSWORD}\nbase ou=people,dc=example,dc=com",
			Text: "The servers, in the order in which they are tried: `ldaps://host`, or `ldap://host`, where the connection is encrypted by StartTLS. Only at this machine it stays as it is. " +
				"A server that fails is tried last for 15 seconds.",
		},
		{Word: "starttls", Default: "at other machines only", Text: "Demands StartTLS at this machine too.", Example: "starttls"},
		{
			Word: "ca", Arguments: "<file>", Default: "those of the system",
			Text: "A PEM file with the authorities that issue the servers' certificates.", Example: "ca /etc/gatehouse/directory-ca.pem",
		},
		{
			Word: "bind", Arguments: "<DN> <password>", Default: "people bind by `template`",
			Text:    "An account that may read people's entries and search for them. It needs no other rights.",
			Example: "bind cn=reader,dc=example,dc=com {env.LDAP_PASSWORD}",
		},
		{
			Word: "template", Arguments: "<DN>", Default: "people are searched for", Instead: "-",
			Example: "url ldaps://ldap.example.com\ntemplate uid=%s,ou=people,dc=example,dc=com",
			Text:    "The name that a person binds by, with `%s` for what they type: a DN, or `%s@example.com` at Active Directory. Instead of `bind`.",
		},
		{
			Word: "base", Arguments: "<DN>", Default: "required, unless `template` is a DN", Text: "The DN below which people are searched for.",
			Example: "base ou=people,dc=example,dc=com",
		},
		{
			Word: "match", Arguments: "<filter>", Default: "`(uid=%s)`; with a `template` that is a DN, any entry",
			Example: "match (&(objectClass=person)(|(uid=%s)(mail=%s)))",
			Text:    "The filter that finds a person, with `%s` for what they type. It must find one entry.",
		},
		{
			Word: "networks", Arguments: "<network>…", Default: "any", Example: "networks 10.0.0.0/8 192.168.7.12",
			Text: "Where people sign in from. Others are not offered this provider. The address is that of the peer, or the one that a trusted proxy of Caddy reports.",
		},
		{
			Word: "attributes", Arguments: "<attribute>…", Text: "Attributes that become user details of the same name.",
			Example: "attributes employeeNumber department",
		},
		{
			Word: "email_verified", Default: "addresses are not verified", Example: "email_verified",
			Text: "The addresses in the directory belong to its people, who cannot change them there. Without it they are not verified, and `couple email` is refused.",
		},
		{Word: "groups", Text: "Groups of the directory that are groups here.", Blocks: []*Block{&LDAPGroups}},
		{
			Word: "migrate", Arguments: "password", Default: "the directory signs people in itself", Example: "migrate password",
			Text: "People move here: who is unknown here and types a password that the directory knows gets an account here with that password, and the directory is not asked about them again. It has no page of its own then, and no `couple`. [moving-in.md](moving-in.md#first-sign-in) explains it.",
		},
		{
			Word: "pool", Arguments: "<1 to 200>", Default: "`8`", Text: "The maximum number of connections to all servers together.",
			Example: "pool 20",
		},
		{
			Word: "identify_by", Arguments: "<attribute>",
			Default: "`entryUUID`, `objectGUID`, `nsUniqueId`, `ipaUniqueID` or `GUID`, the first that the entry has",
			Example: "identify_by employeeNumber",
			Text:    "The attribute that identifies a person permanently. No one else may ever get its value.",
		},
	}, slices.DeleteFunc(slices.Clone(remoteOptions), func(o Option) bool { return o.Word == "identify_by" || o.Word == "couple" }), []Option{
		{
			Word: "couple", Arguments: "email", Default: "the person is asked to sign in", Example: "couple email\nemail_verified",
			Text: "Links by a verified address: someone whose address an account here has signs in to that account. It needs `email_verified`.",
		},
	}),
}
