// Package kerberostest plays the server of a Kerberos realm and the browser of a computer in it, for tests.
package kerberostest

import (
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/client"
	krbconfig "github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana"
	"github.com/jcmturner/gokrb5/v8/iana/adtype"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
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
	NameType        int32  // Default: NT-PRINCIPAL
	Says, SaysRealm string // who the computer says that it is. Empty: the same
	Service         string // that the ticket is for
	Ends            time.Duration
	PACs            []PAC // nil: the one of MIT Kerberos, which names no account
}

// Token returns the token of a browser with a ticket of the realm's server.
func (o Ticket) Token(t *testing.T) []byte {
	t.Helper()
	if o.NameType == 0 {
		o.NameType = nametype.KRB_NT_PRINCIPAL
	}
	if o.Says == "" {
		o.Says = o.Name
	}
	if o.SaysRealm == "" {
		o.SaysRealm = o.Realm
	}
	if o.PACs == nil {
		o.PACs = []PAC{{}}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tkt, key := o.seal(t)
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

// seal returns the ticket as the server of the realm encrypts it for the service, and its session key. What
// messages.NewTicket makes has no authorization data.
func (o Ticket) seal(t *testing.T) (messages.Ticket, types.EncryptionKey) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	service := types.NewPrincipalName(nametype.KRB_NT_SRV_INST, o.Service)
	etype, err := crypto.GetEtype(etypeID.AES256_CTS_HMAC_SHA1_96)
	must(err)
	session, err := types.GenerateEncryptionKey(etype)
	must(err)
	var data types.AuthorizationData
	for _, p := range o.PACs {
		signer := p.Signer
		if signer == "" {
			signer = o.Service
		}
		raw := p.Marshal(t, keyOf(t, signer))
		inner, err := asn1.Marshal(types.AuthorizationData{{ADType: adtype.ADWin2KPAC, ADData: raw}})
		must(err)
		data = append(data, types.AuthorizationDataEntry{ADType: adtype.ADIfRelevant, ADData: inner})
	}
	now := time.Now().UTC()
	plain, err := asn1.Marshal(messages.EncTicketPart{
		Flags: types.NewKrbFlags(), Key: session, CRealm: o.Realm, CName: types.NewPrincipalName(o.NameType, o.Name),
		AuthTime: now.Add(-time.Hour), StartTime: now.Add(-time.Hour), EndTime: now.Add(o.Ends), RenewTill: now.Add(o.Ends),
		AuthorizationData: data,
	})
	must(err)
	plain = asn1tools.AddASNAppTag(plain, asnAppTag.EncTicketPart)
	sealed, err := crypto.GetEncryptedData(plain, keyOf(t, o.Service), keyusage.KDC_REP_TICKET, 1)
	must(err)
	return messages.Ticket{TktVNO: iana.PVNO, Realm: Realm, SName: service, EncPart: sealed}, session
}

// keyOf is the key of a service.
func keyOf(t *testing.T, service string) types.EncryptionKey {
	t.Helper()
	return keysOf(t, service).Entries[0].Key
}
