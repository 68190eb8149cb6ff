<?php
// The identity provider itself. The names of attributes go out as object identifiers.
$metadata[getenv('GATEHOUSE_SAML_URL') . '/idp'] = [
    'host' => '__DEFAULT__',
    'privatekey' => 'idp.key',
    'certificate' => 'idp.crt',
    'auth' => 'people',
    'signature.algorithm' => 'http://www.w3.org/2001/04/xmldsig-more#rsa-sha256',
    'saml20.sendartifact' => true,
    'sign.logout' => true,
    'validate.logout' => true,
    'redirect.validate' => true,
    'attributes.NameFormat' => 'urn:oasis:names:tc:SAML:2.0:attrname-format:uri',
    'authproc' => [
        20 => [
            'class' => 'core:PHP',
            'code' => 'if ($attributes["uid"] === ["carol"]) {
                \SimpleSAML\Auth\State::throwException($state, new \SimpleSAML\Module\saml\Error(
                    "urn:oasis:names:tc:SAML:2.0:status:Responder", "urn:oasis:names:tc:SAML:2.0:status:AuthnFailed", "no_existing_customer"
                ));
            }',
        ],
        90 => ['class' => 'core:AttributeMap', 'name2oid'],
    ],
];
