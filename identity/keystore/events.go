package keystore

import "github.com/gatehouse-id/gatehouse/internal/audit"

// The kinds of events of this package.
var (
	certificateAdded   = audit.Type{Type: "configuration.CertificateAddedEvent", Name: "Certificate Added"}
	certificateUpdated = audit.Type{Type: "configuration.CertificateUpdatedEvent", Name: "Certificate Updated"}
	certificateRemoved = audit.Type{Type: "configuration.CertificateRemovedEvent", Name: "Certificate Removed"}
)
