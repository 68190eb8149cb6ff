<?php
// SimpleSAMLphp as an identity provider to try Gatehouse with. $GATEHOUSE_SAML_DIR holds its key and state, $GATEHOUSE_SAML_ETC what came with
// it, $GATEHOUSE_SAML_URL is where it listens.
$dir = getenv('GATEHOUSE_SAML_DIR') . '/';
$config = [
    'baseurlpath' => getenv('GATEHOUSE_SAML_URL') . '/',
    'certdir' => $dir . 'cert/',
    'loggingdir' => $dir . 'log/',
    'datadir' => $dir . 'data/',
    'tempdir' => $dir . 'tmp',
    'metadatadir' => __DIR__ . '/metadata/',
    'attributenamemapdir' => getenv('GATEHOUSE_SAML_ETC') . '/attributemap/',
    'secretsalt' => trim(file_get_contents($dir . 'salt')),
    'auth.adminpassword' => trim(file_get_contents($dir . 'salt')),
    'timezone' => 'UTC',
    'logging.handler' => 'file',
    'logging.level' => SimpleSAML\Logger::INFO,
    'admin.checkforupdates' => false,
    'enable.saml20-idp' => true,
    'module.enable' => ['exampleauth' => true, 'core' => true, 'saml' => true],
    'session.phpsession.savepath' => $dir . 'tmp',
    'store.type' => 'phpsession',
    // Cookies ignore the port: other test servers on the same host have cookies as well.
    'session.cookie.name' => 'SimpleSAMLSession',
    'session.cookie.secure' => false,
    'session.cookie.samesite' => null,
    'language.default' => 'en',
    'language.available' => ['en'],
    'theme.use' => 'default',
    'metadata.sources' => [['type' => 'flatfile']],
];
