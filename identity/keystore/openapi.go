package keystore

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/openapi"
)

// Operations describes what is special about each of Routes for the OpenAPI document. The configuration API adds what
// its operations share.
func Operations() []openapi.Operation {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	ok := func(body any) []openapi.Answer { return []openapi.Answer{{Status: http.StatusOK, Body: body}} }
	const ifMatch = "Only when what is there still has this entity tag (RFC 9110)"
	out := []openapi.Operation{
		{
			Method: get, Path: "/v2/config/certificates", ID: "getCertificates",
			Summary: "Lists the certificates and key pairs, without private keys", Answers: ok([]KeyPair{}),
		},
		{
			Method: post, Path: "/v2/config/certificates", ID: "addCertificate", Summary: "Adds a certificate or key pair",
			Body: addCertificateRequest{}, Answers: ok(certificateID{}),
		},
		{
			Method: post, Path: "/v2/config/certificates/batch", ID: "updateCertificates", Summary: "Adds or changes several, all or none",
			Body: updateCertificatesInBatchRequest{}, Answers: ok(certificateIDs{}),
		},
		{
			Method: get, Path: "/v2/config/certificates/rotations", ID: "getRotations",
			Summary: "Lists the key pairs, Gatehouse's own included, with the stage of their rotation", Answers: ok([]Rotation{}),
		},
		{
			Method: get, Path: "/v2/config/certificates/{certificateId}", ID: "getCertificate",
			Summary: "Reads a certificate or key pair, without its private key", Answers: ok(KeyPair{}),
		},
		{
			Method: post, Path: "/v2/config/certificates/{certificateId}", ID: "updateCertificate",
			Summary: "Changes a certificate or key pair; an empty private_key keeps what is stored", Body: updateCertificateRequest{},
			Answers: ok(certificateID{}),
		},
		{
			Method: del, Path: "/v2/config/certificates/{certificateId}", ID: "deleteCertificate",
			Summary: "Removes a certificate or key pair that nothing uses", Answers: ok(certificateID{}),
		},
		{
			Method: get, Path: "/v2/config/certificates/{certificateId}/rotation", ID: "getRotation",
			Summary: "Reads the stage of the rotation of a key pair; own is Gatehouse's own", Answers: ok(Rotation{}),
		},
		{
			Method: post, Path: "/v2/config/certificates/{certificateId}/rotation/announce", ID: "announceKeyPair",
			Summary: "Makes the next keys of a pair and publishes them next to those in use", Answers: ok(Rotation{}),
		},
		{
			Method: post, Path: "/v2/config/certificates/{certificateId}/rotation/switch", ID: "switchKeyPair",
			Summary: "Uses the keys that were announced; the former ones stay published, and decrypt", Answers: ok(Rotation{}),
		},
		{
			Method: post, Path: "/v2/config/certificates/{certificateId}/rotation/retire", ID: "retireKeyPair",
			Summary: "Removes the former keys of a pair", Answers: ok(Rotation{}),
		},
		{
			Method: post, Path: "/v2/config/certificates/{certificateId}/renew", ID: "renewKeyPair",
			Summary: "Replaces the keys of a pair at once, which ends its rotation", Answers: ok(Rotation{}),
		},
	}
	for i := range out {
		if o := &out[i]; o.Method != get {
			o.Header = []openapi.Param{{Name: "If-Match", Text: ifMatch}}
			o.Answers = append(o.Answers, openapi.Answer{Status: http.StatusPreconditionFailed, Text: "Someone else has changed it since"})
		}
	}
	return out
}
