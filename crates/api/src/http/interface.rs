//! The interface that connections call. The fast path answers readers; the router answers everything else.

use std::{
    convert::Infallible,
    future::{Ready, ready},
};

use axum::{
    BoxError, Router,
    body::{Bytes, HttpBody, to_bytes},
    http::{Request, StatusCode},
    response::Response,
};
use futures::future::Either;
use hyper::service::Service;
use hyper_util::service::{TowerToHyperService, TowerToHyperServiceFuture};

use super::{
    SharedApp,
    edge::{connection::TrustedProxies, fast_path},
};

#[derive(Clone)]
pub struct Interface {
    app: SharedApp,
    router: TowerToHyperService<Router>,
}

impl Interface {
    pub(super) fn new(app: SharedApp, router: Router) -> Self {
        Self { app, router: TowerToHyperService::new(router) }
    }

    /// Answers a request from this process, without a connection. Returns the status and the body.
    ///
    /// # Errors
    /// If the body can't be read to its end, or has more than `bytes_max` bytes.
    pub async fn answer<B>(
        &self,
        request: Request<B>,
        bytes_max: usize,
    ) -> Result<(StatusCode, Bytes), axum::Error>
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let Ok(response) = self.call(request).await;
        let status = response.status();
        Ok((status, to_bytes(response.into_body(), bytes_max).await?))
    }

    pub(super) fn proxies(&self) -> &TrustedProxies {
        &self.app.settings.trusted_proxies
    }
}

impl<B> Service<Request<B>> for Interface
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<Ready<Result<Response, Infallible>>, TowerToHyperServiceFuture<Router, Request<B>>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        match fast_path::answer(&self.app, &request) {
            Some(response) => Either::Left(ready(Ok(response))),
            None => Either::Right(self.router.call(request)),
        }
    }
}
