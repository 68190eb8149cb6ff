package kerberos

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/test/testdata"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/gatehouse-id/gatehouse/idp/kerberos/kerberostest"
)

// TestPACs reads the PAC of a server of Active Directory, and those for services with each kind of key.
func TestPACs(t *testing.T) {
	t.Parallel()
	t.Run("of a server of Active Directory", func(t *testing.T) {
		t.Parallel()
		kt := keytab.New()
		if err := kt.Unmarshal(decoded(t, testdata.KEYTAB_SYSHTTP_TEST_GOKRB5)); err != nil {
			t.Fatal(err)
		}
		key, _, err := kt.GetEncryptionKey(types.NewPrincipalName(1, "sysHTTP"), "TEST.GOKRB5", 2, etypeID.AES256_CTS_HMAC_SHA1_96)
		if err != nil {
			t.Fatal(err)
		}
		raw := decoded(t, testdata.MarshaledPAC_AD_WIN2K_PAC)
		if got, err := accountOf(raw, key); err != nil || got != "testuser1" {
			t.Errorf("accountOf = %q, %v, want testuser1", got, err)
		}
	})
	for _, id := range []int32{
		etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128,
		etypeID.AES256_CTS_HMAC_SHA384_192, etypeID.RC4_HMAC,
	} {
		kind, err := crypto.GetEtype(id)
		if err != nil {
			t.Fatal(err)
		}
		key, err := types.GenerateEncryptionKey(kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"ann", "Jérôme", ""} {
			if got, err := accountOf(kerberostest.PAC{Account: want}.Marshal(t, key), key); err != nil || got != want {
				t.Errorf("keys of type %d: accountOf = %q, %v, want %q", id, got, err, want)
			}
		}
	}
	t.Run("attack 743: 10,000 mutations of a PAC", func(t *testing.T) {
		t.Parallel()
		kind, err := crypto.GetEtype(etypeID.AES256_CTS_HMAC_SHA1_96)
		if err != nil {
			t.Fatal(err)
		}
		key, err := types.GenerateEncryptionKey(kind)
		if err != nil {
			t.Fatal(err)
		}
		whole := kerberostest.PAC{Account: "ann"}.Marshal(t, key)
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same mutations each time
		for range 10_000 {
			raw := append([]byte{}, whole...)
			if random.IntN(3) == 0 {
				raw = raw[:random.IntN(len(raw))]
			} else {
				for range 1 + random.IntN(4) {
					raw[random.IntN(len(raw))] ^= byte(1 + random.IntN(255))
				}
			}
			if got, err := accountOf(raw, key); err == nil && got != "ann" {
				t.Fatalf("a changed PAC is about %q", got)
			}
		}
	})
}

func decoded(t *testing.T, digits string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
