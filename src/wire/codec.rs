//! The codec of every service and client here: protobuf, with a message that
//! would take too much memory refused before it is decoded.

use bytes::Buf as _;
use prost::{Message, Name};
use tonic::{
    Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder},
};
use tonic_prost::{ProstDecoder, ProstEncoder};

use super::weight;

/// See the module. `T` is sent, `U` received.
#[derive(Debug, Clone)]
pub struct BoundedCodec<T, U>(std::marker::PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Name + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder { name: U::full_name(), inner: ProstDecoder::default() }
    }
}

/// The decoder of a [`BoundedCodec`].
#[derive(Debug)]
pub struct BoundedDecoder<U> {
    name: String,
    inner: ProstDecoder<U>,
}

impl<U: Message + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, encoded: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // One message, which tonic has gathered in one piece.
        weight::check(encoded.chunk(), &self.name)
            .map_err(|error| Status::resource_exhausted(error.to_string()))?;
        self.inner.decode(encoded)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.inner.buffer_settings()
    }
}
