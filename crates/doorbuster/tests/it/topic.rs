//! Topics as an operator changes them, at a real broker.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Number of the request that makes a topic, or changes it.
const UPDATE_AND_CREATE_TOPIC: u32 = 17;
/// Gives a topic so many queues at the broker of this address.
pub(crate) fn resize(broker: &str, topic: &str, queues: u32) {
    let header = format!(
        "{{\"code\":{UPDATE_AND_CREATE_TOPIC},\"flag\":0,\"opaque\":1,\"extFields\":{{\"topic\":\"{topic}\",\
         \"defaultTopic\":\"TBW102\",\"readQueueNums\":\"{queues}\",\"writeQueueNums\":\"{queues}\",\"perm\":\"6\",\
         \"topicFilterType\":\"SINGLE_TAG\",\"topicSysFlag\":\"0\",\"order\":\"false\"}}}}"
    );
    let header_bytes = u32::try_from(header.len()).unwrap();
    let frame = [&(header_bytes + 4).to_be_bytes(), &header_bytes.to_be_bytes(), header.as_bytes()].concat();
    let mut stream = TcpStream::connect(broker).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(&frame).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.contains("\"code\":0"), "{answer}");
}
