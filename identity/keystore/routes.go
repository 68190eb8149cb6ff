package keystore

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// Routes are the operations of the certificates API, which the configuration API serves along with its own.
func (s *Service) Routes() []jsonapi.Route {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	return []jsonapi.Route{
		{Method: get, Path: "/v2/config/certificates", Serve: s.handleGetCertificates},
		{Method: post, Path: "/v2/config/certificates", Serve: s.handleAddCertificate},
		{Method: post, Path: "/v2/config/certificates/batch", Serve: s.handleUpdateCertificates},
		{Method: get, Path: "/v2/config/certificates/rotations", Serve: s.handleGetRotations},
		{Method: get, Path: "/v2/config/certificates/{certificateId}", Serve: s.handleGetCertificate},
		{Method: post, Path: "/v2/config/certificates/{certificateId}", Serve: s.handleUpdateCertificate},
		{Method: del, Path: "/v2/config/certificates/{certificateId}", Serve: s.handleDeleteCertificate},
		{Method: get, Path: "/v2/config/certificates/{certificateId}/rotation", Serve: s.handleGetRotation},
		{Method: post, Path: "/v2/config/certificates/{certificateId}/rotation/announce", Serve: s.handleRotate(Announce)},
		{Method: post, Path: "/v2/config/certificates/{certificateId}/rotation/switch", Serve: s.handleRotate(Switch)},
		{Method: post, Path: "/v2/config/certificates/{certificateId}/rotation/retire", Serve: s.handleRotate(Retire)},
		{Method: post, Path: "/v2/config/certificates/{certificateId}/renew", Serve: s.handleRotate(Renew)},
	}
}
