package token

// Confirmation names what the sender of a token must prove to have (RFC 7800 3.1). The zero value is that of a token
// which opens to any bearer. At most one member is set.
type Confirmation struct {
	// JKT is the thumbprint of a key, which proofs are signed with. (RFC 7638; RFC 9449 6.1)
	JKT string `cbor:"1,keyasint,omitempty" json:"jkt,omitempty"`
	// X5T is the thumbprint of a certificate, which the connection is made with. (RFC 8705 3.1)
	X5T string `cbor:"2,keyasint,omitempty" json:"x5t#S256,omitempty"`
}

// IsZero reports whether nothing has to be proved.
func (c Confirmation) IsZero() bool { return c == Confirmation{} }

// MetBy reports whether a sender has proved enough for what is bound so. More than that does no harm: whether a proof
// may come with a token that is bound to nothing depends on how it was sent.
func (c Confirmation) MetBy(proved Confirmation) bool {
	return (c.JKT == "" || c.JKT == proved.JKT) && (c.X5T == "" || c.X5T == proved.X5T)
}

// TokenType returns the name of the type of an access token at the token endpoint and in introspection. (RFC 9449 5,
// 6.2)
func (c Confirmation) TokenType() string {
	if c.JKT != "" {
		return typeDPoP
	}
	return TypeBearer
}

// For returns the introspection for a sender who has proved this: an inactive one when the token asks for more.
func (i *Introspection) For(proved Confirmation) *Introspection {
	if !i.Confirmation.MetBy(proved) {
		return &Introspection{}
	}
	return i
}
