package samlidp_test

import (
	"net/http"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
)

// TestMetadataXML reads what XML allows in metadata. The files are those of the other side of the protocol.
func TestMetadataXML(t *testing.T) {
	t.Parallel()
	clock := func() time.Time { return time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC) }
	for file, want := range map[string]string{
		"../testdata/adfs.xml": "https://fs.example.com/adfs/ls/",
		"../testdata/odd.xml":  "https://idp.example.com/acs",
	} {
		source, err := samlidp.NewSource(file, samlidp.Options{Files: true}, http.DefaultClient, clock, zap.NewNop())
		if err != nil {
			t.Fatalf("NewSource(%s) = %v", file, err)
		}
		m, err := source.Get(t.Context())
		if err != nil || m.DefaultService().Location != want || len(m.Signing) != 1 {
			t.Errorf("Get(%s) = %+v, %v, want the service %s and a key", file, m, err, want)
		}
	}
}
