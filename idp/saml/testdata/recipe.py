# Written by hand in canonical form and signed by openssl, so that no library that is tested here has made the octets that
# are signed: «canonical¦as written» marks where the two differ. Run in this directory; it makes new keys and files.
#   openssl req -x509 -newkey rsa:2048 -nodes -keyout k.pem -subj /CN=fs.example.com -days 36500 -set_serial 7 -outform DER -out c.der
#   openssl req -x509 -newkey rsa:2048 -nodes -keyout idp.pem -subj /CN=idp.example.com -days 36500 -set_serial -0x1db -outform DER -out neg.der
#   python3 recipe.py && rm info k.pem idp.pem c.der neg.der
import base64, hashlib, subprocess, io, sys
b64=lambda b: base64.b64encode(b).decode()
cert=b64(open('c.der','rb').read()); neg=b64(open('neg.der','rb').read())
DS='http://www.w3.org/2000/09/xmldsig#'; EXC='http://www.w3.org/2001/10/xml-exc-c14n#'
import re
def form(doc, n): return re.sub('«([^«»]*?)¦([^«»]*?)»', lambda m: m.group(n), doc, flags=re.S)
def sign(doc, id):
    """doc has «canonical¦written» where the two differ, and SIGNATURE after the start tag of its root"""
    octets=form(doc,1).replace('SIGNATURE','').encode()
    doc=form(doc,2)
    digest=b64(hashlib.sha256(octets).digest())
    info=(f'<ds:SignedInfo xmlns:ds="{DS}"><ds:CanonicalizationMethod Algorithm="{EXC}"></ds:CanonicalizationMethod><ds:SignatureMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"></ds:SignatureMethod>'
     f'<ds:Reference URI="#{id}"><ds:Transforms><ds:Transform Algorithm="{DS}enveloped-signature"></ds:Transform><ds:Transform Algorithm="{EXC}"></ds:Transform></ds:Transforms>'
     f'<ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"></ds:DigestMethod><ds:DigestValue>{digest}</ds:DigestValue></ds:Reference></ds:SignedInfo>')
    open('info','w').write(info)
    sig=subprocess.check_output(['openssl','dgst','-sha256','-sign','k.pem','info'])
    full=f'<ds:Signature xmlns:ds="{DS}">'+info.replace(f' xmlns:ds="{DS}"','').replace('></ds:CanonicalizationMethod>','/>').replace('></ds:SignatureMethod>','/>').replace('></ds:Transform>','/>').replace('></ds:DigestMethod>','/>')+f'<ds:SignatureValue>{b64(sig)}</ds:SignatureValue><KeyInfo xmlns="{DS}"><X509Data><X509Certificate>{cert}</X509Certificate></X509Data></KeyInfo></ds:Signature>'
    return doc.replace('SIGNATURE',full), octets.decode()
def write(name, text):
    open(name,'wb').write(text if isinstance(text,bytes) else text.encode())

key=lambda use,c,md='': f'<{md}KeyDescriptor use="{use}"><KeyInfo xmlns="{DS}"><X509Data><X509Certificate>{c}</X509Certificate></X509Data></KeyInfo></{md}KeyDescriptor>'
MEX='http://schemas.xmlsoap.org/ws/2004/09/mex'; FED='http://docs.oasis-open.org/wsfed/federation/200706'; XSI='http://www.w3.org/2001/XMLSchema-instance'
mex=f'<EndpointReference xmlns="http://www.w3.org/2005/08/addressing"><Address>https://fs.example.com/adfs/services/trust/2005/certificatemixed</Address><Metadata><Metadata xmlns="{MEX}"«¦ xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:wsx="{MEX}"»><wsx:MetadataSection« xmlns:wsx="{MEX}"¦» Dialect="{MEX}"«¦ xmlns=""»><wsx:MetadataReference><Address xmlns="http://www.w3.org/2005/08/addressing">https://fs.example.com/adfs/services/trust/mex</Address></wsx:MetadataReference><plain« xmlns=""¦» note="a &amp; b">x</plain></wsx:MetadataSection></Metadata></Metadata></EndpointReference>'
proto='protocolSupportEnumeration="http://docs.oasis-open.org/ws-sx/ws-trust/200512 http://schemas.xmlsoap.org/ws/2005/02/trust http://docs.oasis-open.org/wsfed/federation/200706"'
role=lambda t,end: f'<RoleDescriptor xmlns:xsi="{XSI}"«¦ xsi:type="fed:{t}"» «ServiceDisplayName="Example" ¦»{proto}« xsi:type="fed:{t}"¦ ServiceDisplayName="Example" xmlns:fed="{FED}"»>{key("signing",cert)}<fed:{end}« xmlns:fed="{FED}"¦»>{mex}</fed:{end}></RoleDescriptor>'
P='urn:oasis:names:tc:SAML:2.0:protocol'; B='urn:oasis:names:tc:SAML:2.0:bindings:'; MD='urn:oasis:names:tc:SAML:2.0:metadata'
E=lambda name,rest: f'<{name} {rest}«></{name}>¦/>»'
adfs=(f'<EntityDescriptor« xmlns="{MD}"¦» ID="_5c62fd0e-3c80-4c1c-a0b7-9d5a2f6f3f10" entityID="http://fs.example.com/adfs/services/trust"«¦ xmlns="{MD}"»>SIGNATURE'
 + role('ApplicationServiceType','ApplicationServiceEndpoint')+role('SecurityTokenServiceType','SecurityTokenServiceEndpoint')
 + f'<SPSSODescriptor WantAssertionsSigned="true" protocolSupportEnumeration="{P}">{key("signing",cert)}'+E('SingleLogoutService',f'Binding="{B}HTTP-Redirect" Location="https://fs.example.com/adfs/ls/"')+'<NameIDFormat>urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress</NameIDFormat>'+E('AssertionConsumerService',f'Binding="{B}HTTP-POST" Location="https://fs.example.com/adfs/ls/" index="0" isDefault="true"')+E('AssertionConsumerService',f'Binding="{B}HTTP-Artifact" Location="https://fs.example.com/adfs/ls/" index="1"')+'</SPSSODescriptor>'
 + f'<IDPSSODescriptor protocolSupportEnumeration="{P}">{key("signing",cert)}'+E('SingleSignOnService',f'Binding="{B}HTTP-Redirect" Location="https://fs.example.com/adfs/ls/"')+E('SingleSignOnService',f'Binding="{B}HTTP-POST" Location="https://fs.example.com/adfs/ls/"')
 + '<Attribute« xmlns="urn:oasis:names:tc:SAML:2.0:assertion" FriendlyName="E-Mail Address"¦» Name="http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress" NameFormat="urn:oasis:names:tc:SAML:2.0:attrname-format:uri"«></Attribute>¦ FriendlyName="E-Mail Address" xmlns="urn:oasis:names:tc:SAML:2.0:assertion"/>»</IDPSSODescriptor>'
 + E('ContactPerson','contactType="support"')+'</EntityDescriptor>')
out,octets=sign(adfs,'_5c62fd0e-3c80-4c1c-a0b7-9d5a2f6f3f10'); write('adfs.xml',out)
head='<?xml version="1.0"?>\n<?xml-stylesheet type="text/xsl" href="metadata.xsl"?>\n<!-- made by hand -->\n'
odd=(f'<md:EntityDescriptor xmlns:md="{MD}"«¦ xmlns:xml="http://www.w3.org/XML/1998/namespace"» ID="all" entityID="https://idp.example.com/idp">SIGNATURE'
 '<md:Extensions><u:UIInfo xmlns:u="urn:oasis:names:tc:SAML:metadata:ui"><u:Description xml:lang="en">«Research &amp; &lt;more&gt;¦<![CDATA[Research & <more>]]>»</u:Description><?editor fold="yes"?></u:UIInfo><x:tag xmlns:x="urn:example:x" id="1" xml:id="one"«></x:tag>¦/>»<x:tag xmlns:x="urn:example:x" id="1"«></x:tag>¦/>»</md:Extensions>'
 f'<md:IDPSSODescriptor protocolSupportEnumeration="{P}">{key("signing",neg,"md:")}'+E('md:SingleSignOnService',f'Binding="{B}HTTP-Redirect" Location="https://idp.example.com/sso"')+'</md:IDPSSODescriptor>'
 f'<md:SPSSODescriptor protocolSupportEnumeration="{P}">{key("signing",neg,"md:")}'+E('md:AssertionConsumerService',f'Binding="{B}HTTP-POST" Location="https://idp.example.com/acs" index="0"')+'</md:SPSSODescriptor></md:EntityDescriptor>')
out,octets=sign(odd,'all'); write('odd.xml',head+out)
def member(i):
    return (f'<EntityDescriptor entityID="https://idp{i}.example.com/idp"><Extensions><u:UIInfo xmlns:u="urn:oasis:names:tc:SAML:metadata:ui"><u:DisplayName xml:lang="en">Institute {i} &lt;R&amp;D«&gt;\n¦>\r\n»  "quoted" é&#«xD¦13»;</u:DisplayName><plain xmlns="" note=«"a &quot;b&quot;&#xA;c d"¦\'a "b"&#10;c\nd\'»>«&lt;&amp;&gt;¦<![CDATA[<&>]]>»<?keep this?></plain></u:UIInfo></Extensions>'
  f'<IDPSSODescriptor protocolSupportEnumeration="{P}">{key("signing",cert)}'+E('SingleSignOnService',f'Binding="{B}HTTP-Redirect" Location="https://idp{i}.example.com/sso?a=1&amp;b=2"')+'</IDPSSODescriptor>'
  f'<x:RoleDescriptor xmlns:x="{MD}" protocolSupportEnumeration="urn:example"«></x:RoleDescriptor>¦/>»</EntityDescriptor>'
  f'<f:EntityDescriptor xmlns:f="{MD}" entityID="https://sp{i}.example.com/sp"><f:SPSSODescriptor protocolSupportEnumeration="{P}">'+E('f:AssertionConsumerService',f'Binding="{B}HTTP-POST" Location="https://sp{i}.example.com/acs" index="0"')+f'</f:SPSSODescriptor></f:EntityDescriptor>«¦<!-- {i} -->»\n')
agg=(f'<EntitiesDescriptor xmlns="{MD}"«¦ xmlns:unused="urn:example:unused"» ID="federation" Name="urn:example:federation" «cacheDuration="PT6H" ¦»validUntil="2126-01-01T00:00:00Z"«¦  cacheDuration="PT6H" »>SIGNATURE\n'+member(1)+'<EntitiesDescriptor Name="inner" validUntil="2125-01-01T00:00:00Z">'+member(2)+'</EntitiesDescriptor>'+member(3)+'</EntitiesDescriptor>')
out,octets=sign(agg,'federation'); write('aggregate.xml','<?xml version="1.0" encoding="UTF-8"?>\n'+out)
write('signer.pem','-----BEGIN CERTIFICATE-----\n'+'\n'.join(cert[i:i+64] for i in range(0,len(cert),64))+'\n-----END CERTIFICATE-----\n')
