package client

const formatOpaque = "opaque"

const FormatJWT = "jwt"
