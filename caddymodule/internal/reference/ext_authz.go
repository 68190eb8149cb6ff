package reference

// ExtAuthz is the listener for Envoy's external authorization over gRPC.
var ExtAuthz = Block{
	Head: "ext_authz <address>", Open: "ext_authz 127.0.0.1:9191", Bare: true,
	Sample: "tls /etc/gatehouse/envoy.crt /etc/gatehouse/envoy.key\nclient_ca /etc/gatehouse/clients.crt",
	Text: "Answers `envoy.service.auth.v3.Authorization/Check` on a listener of its own. The context extension `policy` of a route names a `forward_auth` or a policy. " +
		"Without `tls` it speaks HTTP/2 in plain text, on a loopback address only.",
	Options: []Option{
		{
			Word: "tls", Arguments: "<certificate> <key>", Default: "none, on a loopback address",
			Example: "tls /etc/gatehouse/envoy.crt /etc/gatehouse/envoy.key",
			Text:    "The files of a certificate and its key, in PEM. They are read again when the certificate changes.",
		},
		{
			Word: "client_ca", Arguments: "<file>", Default: "none, on a loopback address",
			Example: "tls /etc/gatehouse/envoy.crt /etc/gatehouse/envoy.key\nclient_ca /etc/gatehouse/clients.crt",
			Text:    "The certificates, in PEM, of the authorities that clients must have a certificate of. On other addresses than those of the loopback it is required.",
		},
	},
}
