// Package kerberostest plays the server of a Kerberos realm and the browser of a computer in it, for tests.
package kerberostest

import (
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/client"
	krbconfig "github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Realm is the realm.
const Realm = "EXAMPLE.COM"

// Keytab is the file with the keys of services.
func Keytab(t *testing.T, services ...string) []byte {
	t.Helper()
	raw, err := keysOf(t, services...).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// keysOf are the keys of the services of a realm, as its server has them.
func keysOf(t *testing.T, services ...string) *keytab.Keytab {
	t.Helper()
	kt := keytab.New()
	for _, s := range services {
		if err := kt.AddEntry(s, Realm, "the key of "+s, time.Now(), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
			t.Fatal(err)
		}
	}
	return kt
}

// Ticket is the ticket of a browser, with its headers.
type Ticket struct {
	Name, Realm     string // of the person, in the ticket
	Says, SaysRealm string // who the computer says that it is. Empty: the same
	Service         string // that the ticket is for
	Ends            time.Duration
}

// Token returns the token of a browser with a ticket of the realm's server.
func (o Ticket) Token(t *testing.T) []byte {
	t.Helper()
	if o.Says == "" {
		o.Says = o.Name
	}
	if o.SaysRealm == "" {
		o.SaysRealm = o.Realm
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().UTC()
	flags := types.NewKrbFlags()
	tkt, key, err := messages.NewTicket(types.NewPrincipalName(1, o.Name), o.Realm, types.NewPrincipalName(2, o.Service), Realm,
		flags, keysOf(t, o.Service),
		etypeID.AES256_CTS_HMAC_SHA1_96, 1, now.Add(-time.Hour), now.Add(-time.Hour), now.Add(o.Ends), now.Add(o.Ends))
	must(err)
	cl := client.NewWithPassword(o.Says, o.SaysRealm, "", krbconfig.New())
	mech, err := spnego.NewKRB5TokenAPREQ(cl, tkt, key, []int{gssapi.ContextFlagInteg}, nil)
	must(err)
	inner, err := mech.Marshal()
	must(err)
	raw, err := (&spnego.SPNEGOToken{
		Init:         true,
		NegTokenInit: spnego.NegTokenInit{MechTypes: []asn1.ObjectIdentifier{gssapi.OIDKRB5.OID()}, MechTokenBytes: inner},
	}).Marshal()
	must(err)
	return raw
}
