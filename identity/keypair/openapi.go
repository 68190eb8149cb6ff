package keypair

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/openapi"
)

// Operations describes what is special about each of Routes for the OpenAPI document. The configuration API adds what
// its operations share.
func Operations() []openapi.Operation {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	ok := func(body any) []openapi.Answer { return []openapi.Answer{{Status: http.StatusOK, Body: body}} }
	return []openapi.Operation{
		{Method: get, Path: "/v2/config/certificates", ID: "getCertificates", Summary: "Lists the certificates and key pairs, without private keys", Answers: ok([]KeyPair{})},
		{Method: post, Path: "/v2/config/certificates", ID: "addCertificate", Summary: "Adds a certificate or key pair", Body: addCertificateRequest{}, Answers: ok(certificateID{})},
		{Method: post, Path: "/v2/config/certificates/batch", ID: "updateCertificates", Summary: "Adds or changes several, all or none", Body: updateCertificatesInBatchRequest{}, Answers: ok(certificateIDs{})},
		{Method: get, Path: "/v2/config/certificates/{certificateId}", ID: "getCertificate", Summary: "Reads a certificate or key pair, without its private key", Answers: ok(KeyPair{})},
		{Method: post, Path: "/v2/config/certificates/{certificateId}", ID: "updateCertificate", Summary: "Changes a certificate or key pair; an empty private_key keeps what is stored", Body: updateCertificateRequest{}, Answers: ok(certificateID{})},
		{Method: del, Path: "/v2/config/certificates/{certificateId}", ID: "deleteCertificate", Summary: "Removes a certificate or key pair that nothing uses", Answers: ok(certificateID{})},
	}
}
