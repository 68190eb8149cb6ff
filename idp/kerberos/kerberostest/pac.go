package kerberostest

import (
	"encoding/binary"
	"slices"
	"testing"
	"unicode/utf16"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
)

// PAC is the statement of the server of a realm, in a ticket, about the account that got the ticket. (MS-PAC)
type PAC struct {
	// Account is the name of the account, whatever name the ticket was asked for by. Empty: the PAC names none, as those
	// of MIT Kerberos since 1.20.
	Account string
	// Signer is the service whose key signs it. Default: the service that the ticket is for.
	Signer string
}

// Types of the buffers of a PAC. (MS-PAC 2.4)
const (
	logonInfo       = 1
	serverSignature = 6
	kdcSignature    = 7
	clientInfo      = 10
)

// Marshal returns the PAC, signed with the key of a service.
func (p PAC) Marshal(t *testing.T, key types.EncryptionKey) []byte {
	t.Helper()
	etype, err := crypto.GetEtype(key.KeyType)
	if err != nil {
		t.Fatal(err)
	}
	unsigned := binary.LittleEndian.AppendUint32(nil, uint32(etype.GetHashID())) //nolint:gosec // negative ones are written as they are
	unsigned = append(unsigned, make([]byte, etype.GetHMACBitLength()/8)...)
	type buffer struct {
		kind uint32
		data []byte
	}
	buffers := []buffer{{clientInfo, make([]byte, 10)}, {serverSignature, unsigned}, {kdcSignature, unsigned}}
	if p.Account != "" {
		buffers = slices.Insert(buffers, 0, buffer{logonInfo, validationInfo(p.Account)})
	}
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(buffers))) // and version 0
	var body []byte
	signature := 0
	for _, b := range buffers {
		at := 8 + 16*len(buffers) + len(body)
		if b.kind == serverSignature {
			signature = at + 4
		}
		head = binary.LittleEndian.AppendUint32(head, b.kind)
		head = binary.LittleEndian.AppendUint32(head, uint32(len(b.data))) //nolint:gosec // some hundred bytes
		head = binary.LittleEndian.AppendUint64(head, uint64(at))          //nolint:gosec // as above
		body = append(body, b.data...)
		for len(body)%8 != 0 {
			body = append(body, 0)
		}
	}
	raw := slices.Concat(head, body)
	sum, err := etype.GetChecksumHash(key.KeyValue, raw, keyusage.KERB_NON_KERB_CKSUM_SALT)
	if err != nil {
		t.Fatal(err)
	}
	copy(raw[signature:], sum)
	return raw
}

// validationInfo is a KERB_VALIDATION_INFO in NDR that says nothing but EffectiveName. (MS-PAC 2.5)
func validationInfo(effectiveName string) []byte {
	const (
		fixed   = 216    // bytes without what its pointers point to
		nameAt  = 6 * 8  // behind six times
		pointer = 0x2000 // any number but 0
	)
	le := binary.LittleEndian
	name := utf16.Encode([]rune(effectiveName))
	chars := uint32(len(name)) //nolint:gosec // a name
	body := le.AppendUint32(nil, pointer)
	info := make([]byte, fixed)
	le.PutUint16(info[nameAt:], uint16(2*chars))   //nolint:gosec // a name
	le.PutUint16(info[nameAt+2:], uint16(2*chars)) //nolint:gosec // a name
	le.PutUint32(info[nameAt+4:], pointer+4)
	body = append(body, info...)
	for _, n := range []uint32{chars, 0, chars} { // the most, the first and the count
		body = le.AppendUint32(body, n)
	}
	for _, c := range name {
		body = le.AppendUint16(body, c)
	}
	for len(body)%8 != 0 {
		body = append(body, 0)
	}
	out := []byte{1, 0x10, 8, 0, 0xcc, 0xcc, 0xcc, 0xcc} // version 1, little-endian
	out = le.AppendUint64(out, uint64(len(body)))
	return append(out, body...)
}
