package reference

import "slices"

// NotKerberos are the options of other providers that a Kerberos realm has no use for: nothing is asked over the
// network, and a ticket names no address.
var NotKerberos = []string{"couple", "identify_by", "timeout"}

// Kerberos is a realm of computers whose people have signed in there.
var Kerberos = Block{
	Head: "idp <id> kerberos", Open: "idp desk kerberos",
	Text:  "Sign-in by the Kerberos ticket that a computer has (RFC 4559), as in Active Directory, FreeIPA and MIT Kerberos. A browser without a ticket shows the other ways to sign in. [kerberos.md](kerberos.md) is a guide.",
	Needs: "keytab /etc/gatehouse/http.keytab",
	Options: slices.Concat([]Option{
		{
			Word: "keytab", Arguments: "<file>", Default: "`KRB5_KTNAME`, or `/etc/krb5.keytab`",
			Example: "keytab /etc/gatehouse/http.keytab", Instead: "-",
			Text: "The file with the keys of the service. It is read when the configuration is loaded.",
		},
		{
			Word: "service", Arguments: "<principal>", Default: "`HTTP/` and the host of the issuer", Example: "service HTTP/auth.example.com",
			Text: "The principal that browsers ask a ticket for, without the realm.",
		},
		{
			Word: "realms", Arguments: "<realm>…", Default: "those of the keys", Example: "realms EXAMPLE.COM BRANCH.EXAMPLE.COM",
			Text: "The realms whose people sign in. A realm that trusts them can name no others.",
		},
		{
			Word: "networks", Arguments: "<network>…", Default: "any", Example: "networks 10.0.0.0/8",
			Text: "Where people sign in from. Others are not offered this provider. The address is that of the peer, or the one that a trusted proxy of Caddy reports.",
		},
		{
			Word: "auto", Arguments: "[on|off]", Default: "`off`", Example: "networks 10.0.0.0/8\nauto on",
			Text: "Browsers in `networks`, which it needs, are signed in without a choice. Those that have no ticket show the sign-in page.",
		},
		{
			Word: "without_pac", Arguments: "[on|off]", Default: "`off`", Example: "without_pac on", Since: "0.2",
			Text: "Tickets without a PAC are taken, as MIT Kerberos before 1.20 and Heimdal make them. Never write it for Active Directory: anyone there could sign in under another name.",
		},
	}, slices.DeleteFunc(slices.Clone(remoteOptions), func(o Option) bool { return slices.Contains(NotKerberos, o.Word) })),
}
